package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode"

	"connect-svc/internal/foundation/work"
)

const (
	tellEvery    = time.Minute // how often the log counts the requests that fail for one cause
	maxOutages   = 20          // causes at one time; requests with further ones are at ERROR each
	maxCauseKind = 200         // bytes of a cause that tell it from others
)

// outages has the causes for which requests fail now, so that an outage is a line at ERROR a minute, and not one for each request. A cause
// has ended when no request has failed for it for a minute. It is safe for concurrent use.
type outages struct {
	logger *slog.Logger

	mu    sync.Mutex
	kinds map[string]*outage
}

// outage is a cause for which requests fail.
type outage struct {
	cause             string // of the first request
	begun, last, told time.Time
	total, untold     int // requests
}

func newOutages(logger *slog.Logger) *outages {
	return &outages{logger: logger, kinds: map[string]*outage{}}
}

// level is the one of a request's event: ERROR for the first that fails for a cause and for each panic, WARN for the others. It writes the
// counts that are due.
func (o *outages) level(ctx context.Context, event *Event) slog.Level {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	for kind, known := range o.kinds {
		switch {
		case now.Sub(known.last) >= tellEvery:
			delete(o.kinds, kind)
			if known.total > 1 {
				o.logger.LogAttrs(ctx, slog.LevelInfo, "requests do not fail for this any more",
					slog.Int("requests", known.total), slog.Float64("seconds", known.last.Sub(known.begun).Seconds()), slog.String("cause", known.cause))
			}
		case known.untold > 0 && now.Sub(known.told) >= tellEvery:
			o.logger.LogAttrs(ctx, slog.LevelError, "requests fail", slog.Int("requests", known.untold), slog.String("cause", known.cause))
			known.told, known.untold = now, 0
		}
	}
	if event.Cause == nil {
		return slog.LevelInfo
	}
	cause := event.Cause.Error()
	kind := strings.Map(func(r rune) rune { // without numbers, such as ports and times, which differ from request to request
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, cause[:min(len(cause), maxCauseKind)])
	known := o.kinds[kind]
	switch _, panicked := errors.AsType[*work.Panic](event.Cause); {
	case panicked || known == nil && len(o.kinds) == maxOutages:
		return slog.LevelError
	case known == nil:
		o.kinds[kind] = &outage{cause: cause, begun: now, last: now, told: now, total: 1}
		return slog.LevelError
	}
	known.last = now
	known.total++
	known.untold++
	return slog.LevelWarn
}
