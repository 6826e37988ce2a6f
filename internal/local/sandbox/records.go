package sandbox

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/domain/activity"
	"github.com/google/uuid"
)

// record adds the records of a user on a date to a batch: at most five rows. The dates that have records are documented, so that tests can
// rely on them; the amounts derive from the user's number and the date.
func record(batch *activity.Batch, user *person, date time.Time) {
	day := int(date.Unix() / (24 * 60 * 60))
	random := rand.New(rand.NewPCG(uint64(user.number), uint64(day))) //nolint:gosec // no secret
	steps, rides := plan(user.Kind, day, date.Weekday())
	if steps {
		batch.DailySteps = append(batch.DailySteps, activity.StepsRecord{
			UserID: user.UserId, Date: date, Steps: 4000 + random.IntN(9000),
		})
	}
	for n := range rides {
		batch.CyclingActivities = append(batch.CyclingActivities, ride(user.UserId, date, n, random))
	}
	if user.Kind == sandboxapi.KindCorrected {
		correct(batch, user.UserId, date, day, random)
	}
}

// plan returns whether a kind of user records steps on a day, and the number of rides.
func plan(kind sandboxapi.Kind, day int, weekday time.Weekday) (steps bool, rides int) {
	switch weekday {
	case time.Saturday:
	case time.Sunday:
		rides = 1
	default:
		rides = 2
	}
	switch kind {
	case sandboxapi.KindActive, sandboxapi.KindCorrected:
		return true, rides
	case sandboxapi.KindGaps:
		if day%14 < 9 {
			return true, rides
		}
	case sandboxapi.KindSparse:
		if day%15 == 0 {
			return true, 1
		}
		return day%5 == 0, 0
	}
	return false, 0
}

// ride returns the nth ride of a date: the first in the morning, the second in the evening. One in 20 has no end.
func ride(user uuid.UUID, date time.Time, n int, random *rand.Rand) activity.RideRecord {
	minutes := 12 + random.IntN(40)
	start := date.Add(time.Duration(7+10*n)*time.Hour + time.Duration(random.IntN(3600))*time.Second)
	record := activity.RideRecord{
		UserID: user, SourceID: fmt.Sprintf("sandbox-%s-%d", date.Format(time.DateOnly), n+1),
		Start: start, End: start.Add(time.Duration(minutes) * time.Minute), DistanceMeters: minutes * (220 + random.IntN(120)),
	}
	if random.IntN(20) == 0 {
		record.End = time.Time{}
	}
	return record
}

func correct(batch *activity.Batch, user uuid.UUID, date time.Time, day int, random *rand.Rand) {
	id := func(part string) uuid.UUID { return uuid.NewSHA1(user, []byte(part+date.Format(time.DateOnly))) }
	delta, note := 0, "device on a swing"
	switch {
	case day%7 == 0:
		delta, note = -100_000, "another person's device" // a total does not go below zero
	case day%2 == 0:
		delta = -100 - random.IntN(900)
	}
	if delta != 0 {
		batch.StepCorrections = append(batch.StepCorrections, activity.AdjustmentRecord{
			UserID: user, ID: id("steps"), Date: date, Delta: delta, Note: note,
		})
	}
	if day%3 == 0 {
		batch.CyclingAdjustments = append(batch.CyclingAdjustments, activity.AdjustmentRecord{
			UserID: user, ID: id("cycling"), Date: date, Delta: 300 + random.IntN(900), Note: "tunnel",
		})
	}
}

const (
	// growEvery is how often users record, because a day can begin without the driver.
	growEvery = time.Minute
	// farthest bounds the lead of the clock over the real time.
	farthest = 10 * 366 * 24 * time.Hour
)

// AdvanceClock moves the clock, and users record up to the new day.
func (d driver) AdvanceClock(ctx context.Context, request sandboxapi.AdvanceClockRequestObject) (sandboxapi.AdvanceClockResponseObject, error) {
	err := d.growAll(ctx, time.Duration(request.Body.AdvanceSeconds)*time.Second)
	return sandboxapi.AdvanceClock200JSONResponse{Now: instant(d.clock.Now())}, err
}
