package sandbox

import (
	"context"
	"time"

	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/edge/contract"
	"connect-svc/internal/foundation/work"
)

const (
	// growEvery is how often users record, because a day can begin without the driver.
	growEvery = time.Minute
	// farthest bounds the lead of the clock over the real time.
	farthest = 10 * 366 * 24 * time.Hour
)

// AdvanceClock moves the clock. Users record up to the new day.
func (d driver) AdvanceClock(
	ctx context.Context, request sandboxapi.AdvanceClockRequestObject,
) (sandboxapi.AdvanceClockResponseObject, error) {
	by := time.Duration(request.Body.AdvanceSeconds) * time.Second
	err := d.growAll(ctx, func() error { // one at a time, so that the bound holds
		if d.clock.Offset()+by > farthest {
			return contract.Field("must leave the clock at most ten years ahead of the real time", "advance_seconds")
		}
		d.clock.Advance(by)
		return nil
	})
	return sandboxapi.AdvanceClock200JSONResponse{Now: instant(d.clock.Now())}, err
}

// followClock makes users record when days begin, until ctx ends. The service delivers webhooks by the clock itself.
func (s *sandbox) followClock(ctx context.Context) {
	work.Every(ctx, growEvery, func() {
		limited, cancel := context.WithTimeout(ctx, s.config.Limits.Batch)
		defer cancel()
		if err := s.growAll(limited, nil); err != nil && ctx.Err() == nil {
			s.config.Logger.Error("follow the clock", "cause", err)
		}
	})
}
