// Package telemetry shows operators what the service does: structured logs with one event per request, metrics that are counted from
// these events, and traces.
//
// # Invariants
//
//   - No log line contains a credential. Every line passes through [credential.Redact] (TestLoggerRedacts), and libraries print none
//     (TestLibrariesPrintNothing).
//   - An event names the operation. It never contains the query or a header, because queries contain codes. It contains the path, which may have a
//     grant id, and the network address only if the private listener refuses a request for want of a token (TestOneEventForEachRequest,
//     app.TestUnauthorizedAreNamed).
//
// The package makes no decisions. An edge (internal/edge/partner, internal/edge/pages) answers the request and records in its [Event]
// what the operator should know.
package telemetry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"regexp"
	"strings"
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
// with the lines before it. Call flush at the end. From then on libraries print nothing by themselves: it may hold what a webhook's receiver sent.
func NewGatheringLogger(w io.Writer, level slog.Leveler) (logger *slog.Logger, flush func()) {
	log.SetOutput(io.Discard)
	lines := &lineWriter{w: w, delay: 100 * time.Millisecond}
	return newLogger(lines, level), lines.flush
}

func newLogger(lines *lineWriter, level slog.Leveler) *slog.Logger {
	// A byte slice becomes a string: base64 would hide the prefixes of credentials.
	asText := func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindAny {
			if text, ok := a.Value.Any().([]byte); ok {
				a.Value = slog.StringValue(string(text))
			}
		}
		return a
	}
	return slog.New(traced{slog.NewJSONHandler(lines, &slog.HandlerOptions{Level: level, ReplaceAttr: asText}), lines.flush})
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

var networkAddress = regexp.MustCompile(`(\[[0-9a-fA-F:.]+(%[^\]]+)?\]|\d{1,3}(\.\d{1,3}){3}):\d+`)

type serverErrors struct{ logger *slog.Logger }

func (s serverErrors) Write(line []byte) (int, error) {
	text := networkAddress.ReplaceAllLiteralString(string(line), "a peer")
	s.logger.Warn("http server", "cause", text)
	return len(line), nil
}

// maxLine is the size of the longest event in the log, in bytes. Its attributes may hold more: an error can be joined of thousands.
const maxLine = 16 << 10

// bounded returns the line of an event. If it is longer than maxLine, it returns the same event with shorter texts and lists.
func bounded(line []byte) []byte {
	for most := maxLine / 4; len(line) > maxLine && most > 0; most /= 2 {
		if shorter := shortened(line, most); len(shorter) <= maxLine {
			return shorter
		}
	}
	if len(line) > maxLine { // thousands of attributes
		return []byte(`{"level":"ERROR","msg":"an event was too long for the log"}` + "\n")
	}
	return line
}

func shortened(line []byte, most int) []byte {
	var event map[string]any
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	if err := decoder.Decode(&event); err != nil {
		return line // not reached: slog writes objects
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(cut(event, most)); err != nil {
		return line // not reached: it was JSON
	}
	return out.Bytes()
}

// cut shortens texts to most bytes, and lists to as many elements as have room there.
func cut(value any, most int) any {
	switch value := value.(type) {
	case string:
		if len(value) > most {
			return fmt.Sprintf("%s… (%d bytes in all)", strings.ToValidUTF8(value[:most], ""), len(value))
		}
	case []any:
		value = value[:min(len(value), most/64)]
		for i, element := range value {
			value[i] = cut(element, most)
		}
		return value
	case map[string]any:
		for name, element := range value {
			value[name] = cut(element, most)
		}
	}
	return value
}
