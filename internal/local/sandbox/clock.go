package sandbox

import (
	"context"
	"time"

	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/api/contract"
)

const (
	// growEvery is how often users record, in case a day has begun without the driver.
	growEvery = time.Minute
	// farthest bounds how far the clock may be ahead of the real time.
	farthest = 10 * 366 * 24 * time.Hour
)

// AdvanceClock moves the clock. Users record up to the new day.
func (d driver) AdvanceClock(
	ctx context.Context, request sandboxapi.AdvanceClockRequestObject,
) (sandboxapi.AdvanceClockResponseObject, error) {
	if err := d.advance(ctx, time.Duration(request.Body.AdvanceSeconds)*time.Second); err != nil {
		return nil, err
	}
	if err := d.growAll(ctx); err != nil {
		return nil, err
	}
	return sandboxapi.AdvanceClock200JSONResponse{Now: instant(d.clock.Now())}, nil
}

func (s *sandbox) advance(ctx context.Context, by time.Duration) error {
	if err := s.people.growing.Acquire(ctx); err != nil { // one at a time, so that the bound still holds when the clock moves
		return err
	}
	defer s.people.growing.Release()
	if s.clock.Offset()+by > farthest {
		return contract.Field("must leave the clock at most ten years ahead of the real time", "advance_seconds")
	}
	s.clock.Advance(by)
	return nil
}

// followClock does until ctx ends what has to happen by itself when time has passed. Webhooks need nothing: their service
// delivers by the clock.
func (s *sandbox) followClock(ctx context.Context) {
	grow := time.NewTicker(growEvery)
	defer grow.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-grow.C:
			limited, cancel := context.WithTimeout(ctx, s.config.Limits.Batch)
			err := s.growAll(limited)
			cancel()
			if err != nil && ctx.Err() == nil {
				s.config.Logger.Error("follow the clock", "cause", err)
			}
		}
	}
}
