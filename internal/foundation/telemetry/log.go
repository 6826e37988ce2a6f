package telemetry

import (
	"io"
	"log"
	"log/slog"
	"regexp"
	"sync"
	"time"

	"connect-svc/internal/foundation/credential"
)

// NewLogger returns a logger that writes one JSON object per line to w, at level and above. It redacts every credential (specification
// 5.5) and adds the trace id of the context.
func NewLogger(w io.Writer, level slog.Leveler) *slog.Logger {
	return newLogger(&lineWriter{w: w}, level)
}

// NewGatheringLogger is like [NewLogger], but buffers lines for at most a tenth of a second. A warning or an error is written at once,
// with the lines before it. Call flush at the end.
func NewGatheringLogger(w io.Writer, level slog.Leveler) (logger *slog.Logger, flush func()) {
	lines := &lineWriter{w: w, delay: 100 * time.Millisecond}
	return newLogger(lines, level), lines.flush
}

func newLogger(lines *lineWriter, level slog.Leveler) *slog.Logger {
	return slog.New(traced{slog.NewJSONHandler(lines, &slog.HandlerOptions{Level: level, ReplaceAttr: bytesAsText}), lines.flush})
}

// bytesAsText makes a string of a byte slice: base64 would hide the prefixes of credentials.
func bytesAsText(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindAny {
		if text, is := a.Value.Any().([]byte); is {
			a.Value = slog.StringValue(string(text))
		}
	}
	return a
}

// maxBuffered is how many bytes a lineWriter may buffer.
const maxBuffered = 32 << 10

// lineWriter writes whole lines, in order and without credentials.
type lineWriter struct {
	w     io.Writer
	delay time.Duration // how long a line may be buffered

	mu     sync.Mutex
	buffer []byte
}

// Write buffers a line, of at most [maxLine] bytes, until the buffer is full or the delay is over.
func (l *lineWriter) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.buffer) == 0 && l.delay > 0 {
		time.AfterFunc(l.delay, l.flush)
	}
	l.buffer = append(l.buffer, bounded([]byte(credential.Redact(string(line))))...)
	if l.delay == 0 || len(l.buffer) >= maxBuffered {
		l.writeBuffer()
	}
	return len(line), nil
}

func (l *lineWriter) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writeBuffer()
}

func (l *lineWriter) writeBuffer() {
	if len(l.buffer) > 0 {
		_, _ = l.w.Write(l.buffer) // an error could not be logged
		l.buffer = l.buffer[:0]
	}
}

// ServerErrors returns a logger for http.Server.ErrorLog. It removes the peer's network address from messages such as failed TLS
// handshakes.
func ServerErrors(logger *slog.Logger) *log.Logger {
	return log.New(serverErrors{logger}, "", 0)
}

var networkAddress = regexp.MustCompile(`(\[[0-9a-fA-F:.%a-z]+\]|\d{1,3}(\.\d{1,3}){3}):\d+`)

type serverErrors struct{ logger *slog.Logger }

func (s serverErrors) Write(line []byte) (int, error) {
	text := networkAddress.ReplaceAllLiteralString(string(line), "a peer")
	s.logger.Warn("http server", "cause", text)
	return len(line), nil
}
