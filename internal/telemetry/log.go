package telemetry

import (
	"encoding/json"
	"io"
	"log"
	"log/slog"
	"regexp"
	"sync"

	"connect-svc/internal/credential"
)

// NewLogger returns a logger that writes one JSON object a line to w, at level and above, with every credential
// redacted (specification 5.5: credentials stay out of logs), and the trace id where the context has one.
func NewLogger(w io.Writer, level slog.Leveler) *slog.Logger {
	lines := &lineWriter{w: w}
	return slog.New(traced{slog.NewJSONHandler(lines, &slog.HandlerOptions{Level: level, ReplaceAttr: redact}), lines})
}

// lineWriter lets whole lines through, one at a time.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lineWriter) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(line)
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
