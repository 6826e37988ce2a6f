package demo

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"connect-svc/internal/domain/activity"
	"connect-svc/internal/foundation/timezone"
	"connect-svc/internal/foundation/work"
)

const (
	growEvery = 4 * time.Second
	rideEvery = 5 * time.Minute // on average
)

func (d *demo) growRegularly(ctx context.Context) {
	every := cmp.Or(d.config.Every, growEvery)
	work.Every(ctx, every, func() {
		for _, p := range d.people {
			if err := d.grow(ctx, p, time.Now(), rand.N(rideEvery) < every); err != nil && ctx.Err() == nil {
				d.logger.Error("sample activity", "cause", err)
			}
		}
	})
}

// grow adds some steps to the user's today and, if they ride, a short ride that has just ended.
func (d *demo) grow(ctx context.Context, p person, now time.Time, rides bool) error {
	local := now.In(p.location)
	today := timezone.Day(local)
	recorded, err := d.service.Activity.DailySteps(ctx, p.id, activity.Range{From: today, To: today})
	if err != nil {
		return err
	}
	steps := 0
	if rand.IntN(4) == 0 { // some 800 an hour: a day of the demo looks like the days before it
		steps = 2 + rand.IntN(4)
	}
	if steps == 0 && !rides {
		return nil
	}
	if len(recorded) > 0 {
		steps += int(recorded[0].Steps)
	}
	batch := activity.Batch{DailySteps: []activity.StepsRecord{{UserID: p.id, Date: today, Steps: steps}}}
	if rides {
		// A device records the local time, without a zone.
		end := today.Add(time.Duration(local.Hour())*time.Hour + time.Duration(local.Minute())*time.Minute)
		minutes := 6 + rand.IntN(20)
		batch.CyclingActivities = []activity.RideRecord{{
			UserID: p.id, SourceID: fmt.Sprint("demo-", now.Unix()),
			Start: end.Add(-time.Duration(minutes) * time.Minute), End: end,
			DistanceMeters: minutes * (220 + rand.IntN(120)),
		}}
	}
	_, err = d.service.Activity.Put(ctx, batch)
	return err
}
