package sandbox

import (
	"context"
	"time"

	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/api/contract"
)

const (
	// wakeEvery is how often webhooks are looked for whose next try has become due because the clock was moved.
	wakeEvery = 100 * time.Millisecond
	// growEvery is how often it is seen to that users record the day that has begun by itself.
	growEvery = time.Minute
	// farthest is how far the clock may be ahead of the real time.
	farthest = 10 * 366 * 24 * time.Hour
)

// AdvanceClock moves the clock, and with it what users have recorded.
func (d driver) AdvanceClock(
	ctx context.Context, request sandboxapi.AdvanceClockRequestObject,
) (sandboxapi.AdvanceClockResponseObject, error) {
	if err := d.advance(ctx, time.Duration(request.Body.AdvanceSeconds)*time.Second); err != nil {
		return nil, err
	}
	if err := d.growAll(ctx); err != nil {
		return nil, err
	}
	return sandboxapi.AdvanceClock200JSONResponse{
		Body:    sandboxapi.Time{Now: instant(d.clock.Now())},
		Headers: sandboxapi.AdvanceClock200ResponseHeaders(okHeaders(ctx)),
	}, nil
}

func (s *sandbox) advance(ctx context.Context, by time.Duration) error {
	if err := s.people.growing.Acquire(ctx); err != nil { // one at a time: the bound is looked at, then the clock moved
		return err
	}
	defer s.people.growing.Release()
	if s.clock.Offset()+by > farthest {
		return contract.Field("must leave the clock at most ten years ahead of the real time", "advance_seconds")
	}
	s.clock.Advance(by)
	return nil
}

// wakeDue brings forward the jobs of webhooks that are due. Between tries a job sleeps by the real time of the job queue;
// when a try is due is said by its event, by the clock that the sandbox moves.
const wakeDue = `update river_job j set state = 'available', scheduled_at = now()
	from webhook_events e
	where j.kind = 'webhook_delivery' and j.state in ('scheduled', 'available', 'retryable') and j.scheduled_at > now()
		and e.event_id = (j.args ->> 'event_id')::uuid and e.state = 'pending' and e.next_try_at <= connect_now()`

// followClock does until ctx ends what has to happen by itself when time has passed.
func (s *sandbox) followClock(ctx context.Context) {
	wake, grow := time.NewTicker(wakeEvery), time.NewTicker(growEvery)
	defer wake.Stop()
	defer grow.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-wake.C:
			_, err = s.service.Pool.Exec(ctx, wakeDue)
		case <-grow.C:
			limited, cancel := context.WithTimeout(ctx, contract.BatchTime)
			err = s.growAll(limited)
			cancel()
		}
		if err != nil && ctx.Err() == nil {
			s.config.Logger.Error("follow the clock", "cause", err)
		}
	}
}
