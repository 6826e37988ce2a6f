package telemetry

import (
	"encoding/json"
	"io"
	"log"
	"log/slog"
	"regexp"
	"sync"
	"time"

	"connect-svc/internal/credential"
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
	return slog.New(traced{slog.NewJSONHandler(lines, &slog.HandlerOptions{Level: level, ReplaceAttr: redact}), lines.flush})
}

// maxBuffered is how many bytes a lineWriter may buffer.
const maxBuffered = 32 << 10

// lineWriter writes whole lines, in order.
type lineWriter struct {
	w     io.Writer
	delay time.Duration // how long a line may be buffered

	mu     sync.Mutex
	buffer []byte
}

// Write buffers a line until the buffer is full or the delay is over.
func (l *lineWriter) Write(line []byte) (int, error) {
	if l.delay == 0 {
		return l.w.Write(line)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.buffer) == 0 {
		time.AfterFunc(l.delay, l.flush)
	}
	l.buffer = append(l.buffer, line...)
	if len(l.buffer) >= maxBuffered {
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

// redact redacts an attribute's key and value. The handler calls it for the message and for each attribute that is not a group, at any
// depth, after it has resolved the value.
func redact(_ []string, a slog.Attr) slog.Attr {
	return slog.Attr{Key: credential.Redact(a.Key), Value: redactValue(a.Value)}
}

func redactValue(v slog.Value) slog.Value {
	switch v.Kind() {
	case slog.KindString:
		return slog.StringValue(credential.Redact(v.String()))
	case slog.KindAny:
		return redactAny(v)
	default: // numbers, times, booleans
		return v
	}
}

// redactAny handles values that the JSON handler would pass to encoding/json. A byte slice is logged as text, because base64 would
// hide the prefixes of credentials.
func redactAny(v slog.Value) slog.Value {
	switch value := v.Any().(type) {
	case nil, *slog.Source, slog.Level:
		return v
	case error:
		return slog.StringValue(credential.Redact(value.Error()))
	case []byte:
		return slog.StringValue(credential.Redact(string(value)))
	default:
		text, err := json.Marshal(value)
		if err != nil {
			return slog.StringValue("a value that JSON cannot hold")
		}
		if clean := credential.Redact(string(text)); clean != string(text) {
			return slog.StringValue(clean)
		}
		return v
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
