package sandbox

import (
	"context"
	"time"

	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/api/contract"
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
	if err := d.advance(ctx, time.Duration(request.Body.AdvanceSeconds)*time.Second); err != nil {
		return nil, err
	}
	if err := d.growAll(ctx); err != nil {
		return nil, err
	}
	return sandboxapi.AdvanceClock200JSONResponse{Now: instant(d.clock.Now())}, nil
}

func (s *sandbox) advance(ctx context.Context, by time.Duration) error {
	if err := s.people.growing.Acquire(ctx); err != nil { // one at a time, so that the bound holds
		return err
	}
	defer s.people.growing.Release()
	if s.clock.Offset()+by > farthest {
		return contract.Field("must leave the clock at most ten years ahead of the real time", "advance_seconds")
	}
	s.clock.Advance(by)
	return nil
}

// followClock makes users record when days begin, until ctx ends. The service delivers webhooks by the clock itself.
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
