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

// NewLogger returns a logger that writes one JSON object a line to w, at level and above, with every credential
// redacted (specification 5.5: credentials stay out of logs), and the trace id where the context has one.
func NewLogger(w io.Writer, level slog.Leveler) *slog.Logger {
	return newLogger(&lineWriter{w: w}, level)
}

// NewGatheringLogger is [NewLogger], but for the events of requests that went well: they are written together, a tenth of
// a second after the first of them at the latest, and before anything else. Call flush at the end.
func NewGatheringLogger(w io.Writer, level slog.Leveler) (logger *slog.Logger, flush func()) {
	lines := &lineWriter{w: w, patience: 100 * time.Millisecond}
	return newLogger(lines, level), lines.flush
}

func newLogger(lines *lineWriter, level slog.Leveler) *slog.Logger {
	return slog.New(traced{slog.NewJSONHandler(lines, &slog.HandlerOptions{Level: level, ReplaceAttr: redact}), lines})
}

// gathered is how much may wait, in bytes.
const gathered = 32 << 10

// lineWriter lets whole lines through, one at a time and in order.
type lineWriter struct {
	w        io.Writer
	patience time.Duration // how long a line may wait for others

	mu      sync.Mutex
	waiting []byte
}

// Write writes a line at once.
func (l *lineWriter) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writeWaiting()
	return l.w.Write(line)
}

// writeSoon writes a line when others have come to it, or time is up.
func (l *lineWriter) writeSoon(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 && l.patience > 0 {
		time.AfterFunc(l.patience, l.flush)
	}
	l.waiting = append(l.waiting, line...)
	if l.patience == 0 || len(l.waiting) >= gathered {
		l.writeWaiting()
	}
}

func (l *lineWriter) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writeWaiting()
}

func (l *lineWriter) writeWaiting() {
	if len(l.waiting) > 0 {
		_, _ = l.w.Write(l.waiting) // nobody could be told
		l.waiting = l.waiting[:0]
	}
}

// redact is called by the handler for the message and for each attribute that is not itself a group, however deep it
// stands; values are resolved before. Keys are redacted too: the keys of a map become attributes of a kind.
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

// redactAny handles what the JSON handler would hand to encoding/json. A byte slice is logged as text, since base64
// would hide a credential from whoever looks for its prefix.
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

// ServerErrors returns the logger for http.Server.ErrorLog. That log speaks of broken TLS handshakes and the like and
// names the peer, which has no place in a log here.
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
