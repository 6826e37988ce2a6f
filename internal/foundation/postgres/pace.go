package postgres

import (
	"context"
	"time"

	"connect-svc/internal/foundation/work"
)

// maxPause bounds a pause. A part can take long because it waits for a lock.
const maxPause = time.Second

// pace lets bulk work go on in parts, with pauses, so that it is not always its turn: others get the processors and the disk, and the
// write-ahead log is flushed before much of it has come together, for which every commit would wait.
type pace struct{ resumed time.Time }

func newPace() *pace { return &pace{time.Now()} }

// yield is called after a part. It pauses for two fifths of the time that the part took.
func (p *pace) yield(ctx context.Context) error {
	work.Pause(ctx, min(time.Since(p.resumed)*2/5, maxPause))
	p.resumed = time.Now()
	return ctx.Err()
}
