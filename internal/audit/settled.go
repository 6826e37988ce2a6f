package audit

import (
	"context"
	"time"
)

// settlePause is the pause before settled asks again.
const settlePause = 10 * time.Millisecond

// settled returns the instant before which no event is added any more. It waits, but not for long, until that is the time of the call,
// or until if that is earlier.
func (l *Log) settled(ctx context.Context, until time.Time) (time.Time, error) {
	wanted, err := l.queries.Now(ctx)
	if err != nil {
		return time.Time{}, err
	}
	if !until.IsZero() && until.Before(wanted) {
		wanted = until
	}
	for end := time.Now().Add(l.bounds.settle); ; {
		settled, err := l.queries.Settled(ctx)
		switch {
		case err != nil:
			return time.Time{}, err
		case !settled.Before(wanted):
			return wanted, nil
		case time.Now().After(end):
			return settled, nil
		}
		select {
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		case <-time.After(settlePause):
		}
	}
}
