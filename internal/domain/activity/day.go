package activity

import (
	"context"
	"time"

	"github.com/google/uuid"

	activitydb "connect-svc/gen/db/activity"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
)

// Day holds the figures of a date of a user: steps, or metres.
type Day struct {
	IsRecorded bool  // without a record the date has no total, whatever the adjustments
	Recorded   int64 // without adjustments
	Adjusted   int64 // the sum of all adjustments
}

// Total returns the total that partners read of a recorded date.
func (d Day) Total() int64 { return max(0, d.Recorded+d.Adjusted) }

// With returns the day with one more adjustment.
func (d Day) With(delta int) Day {
	d.Adjusted += int64(delta)
	return d
}

// Day returns the figures of a date of a user, for support. Errors: refusal.ErrUserNotFound.
func (s *Store) Day(ctx context.Context, dataset Adjusted, userID uuid.UUID, date time.Time) (Day, error) {
	var day Day
	var err error
	if dataset == AdjustedCycling {
		var row activitydb.GetCyclingOfDayRow
		row, err = activitydb.New(s.pool).GetCyclingOfDay(ctx, activitydb.GetCyclingOfDayParams{
			UserID: userID, Day: date, Since: date, Until: date.AddDate(0, 0, 1),
		})
		day = Day(row)
	} else {
		var row activitydb.GetStepsOfDayRow
		row, err = activitydb.New(s.pool).GetStepsOfDay(ctx, activitydb.GetStepsOfDayParams{UserID: userID, Day: date})
		day = Day(row)
	}
	return day, postgres.WrapNoRows("activity: day", err, refusal.ErrUserNotFound)
}

// Amount counts the stored rows of a user.
type Amount struct{ Days, Rides, Adjustments int } // days of steps

// Count counts the stored rows of a user, each kind up to most. Errors: refusal.ErrUserNotFound.
func (s *Store) Count(ctx context.Context, userID uuid.UUID, most int) (Amount, error) {
	row, err := activitydb.New(s.pool).CountActivity(ctx, activitydb.CountActivityParams{UserID: userID, Most: int32(most)})
	found := Amount{int(row.Days), int(row.Rides), int(min(row.Adjustments, int64(most)))}
	return found, postgres.WrapNoRows("activity: count", err, refusal.ErrUserNotFound)
}
