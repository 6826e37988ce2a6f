package activity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/intake"
	"connect-svc/internal/page"
)

// ErrNoAdjustment is the error for an adjustment that is not there, or not there any more.
var ErrNoAdjustment = errors.New("no such adjustment")

// AdjustmentError says that an adjustment cannot be taken, and which field of it is wrong: date, delta or note.
type AdjustmentError struct {
	Field  string
	Reason error // what is accepted
}

func (e *AdjustmentError) Error() string {
	return fmt.Sprintf("invalid adjustment: %s %v", e.Field, e.Reason)
}

// Adjusted is what an adjustment is added to.
type Adjusted string

// What can be adjusted.
const (
	AdjustedSteps   Adjusted = "daily_steps"
	AdjustedCycling Adjusted = "cycling_daily"
)

// adjusted are all in the order of lists.
var adjusted = [...]Adjusted{AdjustedSteps, AdjustedCycling}

// Adjustment is a correction by support.
type Adjustment struct {
	AdjustmentRecord
	Dataset   Adjusted
	CreatedAt time.Time
}

// number is the dataset's place among adjustments of the same time.
func (a Adjusted) number() int64 { return int64(slices.Index(adjusted[:], a)) }

// Key is the adjustment's place in a list by date.
func (a Adjustment) Key() page.Key { return page.Key{At: a.Date, N: a.Dataset.number(), ID: a.ID} }

// LatestKey is the adjustment's place in a list by the time at which it was made, newest first.
func (a Adjustment) LatestKey() page.Key {
	return page.Key{At: a.CreatedAt, N: a.Dataset.number(), ID: a.ID}
}

// adjustmentsAfter is the date and id after which a list by date continues in one dataset.
func adjustmentsAfter(key page.Key, dataset Adjusted) (time.Time, uuid.UUID) {
	switch n := dataset.number(); {
	case key == page.Key{}, key.N == n:
		return key.At, key.ID
	case n < key.N:
		return key.At, uuid.Max
	}
	return key.At.AddDate(0, 0, -1), uuid.Max
}

// adjustmentsBefore is the time and id before which a list of the newest continues in one dataset.
func adjustmentsBefore(key page.Key, dataset Adjusted) (time.Time, uuid.UUID) {
	switch n := dataset.number(); {
	case key == page.Key{}, key.N == n:
		key = key.OrNewest()
		return key.At, key.ID
	case n < key.N:
		return key.At, uuid.Max
	}
	return key.At, uuid.Nil
}

// Day is what a date of a user comes to: steps, or metres.
type Day struct {
	IsRecorded bool  // without a record the date has no total, whatever the adjustments
	Recorded   int64 // without adjustments
	Adjusted   int64 // the sum of all adjustments
}

// Total is what partners read of the date; it is recorded.
func (d Day) Total() int64 { return max(0, d.Recorded+d.Adjusted) }

// With is the day with one adjustment more.
func (d Day) With(delta int) Day {
	d.Adjusted += int64(delta)
	return d
}

// Amount is how much is stored of a user.
type Amount struct{ Days, Rides, Adjustments int } // days of steps

// CheckAdjustment says before [Store.Adjust] whether an adjustment can be taken, as far as the database need not be asked. The error
// is an [*AdjustmentError].
func CheckAdjustment(dataset Adjusted, one AdjustmentRecord) error {
	bad := one.checkSteps()
	if dataset == AdjustedCycling {
		bad = one.checkMeters()
	}
	if len(bad) == 0 {
		return nil
	}
	return newAdjustmentError(bad[0])
}

func newAdjustmentError(bad *intake.RowError) error {
	field := bad.Column
	if field == "delta_meters" {
		field = "delta"
	}
	return &AdjustmentError{field, bad.Err}
}

// Adjust adds to what is recorded for a user's date, now and whatever is recorded for it later: steps, or metres of the day's
// distance and of no ride (specification 2.5 to 2.7). It makes no date that has no record. An id that the user has already for
// this dataset is replaced; uuid.Nil is a new one. Who acts under ctx is in the audit log. Errors: *AdjustmentError,
// ErrUnknownUser.
func (s *Store) Adjust(ctx context.Context, dataset Adjusted, one AdjustmentRecord) (stored Adjustment, err error) {
	if one.ID == uuid.Nil {
		one.ID = uuid.New()
	}
	batch := Batch{StepCorrections: []AdjustmentRecord{one}}
	if dataset == AdjustedCycling {
		batch = Batch{CyclingAdjustments: []AdjustmentRecord{one}}
	}
	_, err = s.put(ctx, batch, func(tx pgx.Tx, result BatchResult) error {
		if result.StepCorrections.Unchanged+result.CyclingAdjustments.Unchanged == 0 {
			if err := noteAdjustment(ctx, tx, "activity.adjusted", dataset, one.UserID, one.ID); err != nil {
				return err
			}
		}
		stored, err = getAdjustment(ctx, tx, dataset, one.UserID, one.ID)
		return err
	})
	if errors.Is(err, ErrUnknownUser) {
		return Adjustment{}, ErrUnknownUser
	}
	if bad := (BatchError)(nil); errors.As(err, &bad) {
		return Adjustment{}, newAdjustmentError(bad[0].RowError)
	}
	return stored, err
}

// RemoveAdjustment takes an adjustment back; removed says that it was there. Who acts under ctx is in the audit log. Error:
// ErrUnknownUser.
func (s *Store) RemoveAdjustment(ctx context.Context, dataset Adjusted, userID, id uuid.UUID) (removed bool, err error) {
	batch := Batch{StepCorrectionRemovals: []AdjustmentRemoval{{userID, id}}}
	if dataset == AdjustedCycling {
		batch = Batch{CyclingAdjustmentRemovals: []AdjustmentRemoval{{userID, id}}}
	}
	_, err = s.put(ctx, batch, func(tx pgx.Tx, result BatchResult) error {
		if removed = result.StepCorrectionRemovals.Removed+result.CyclingAdjustmentRemovals.Removed > 0; !removed {
			return nil
		}
		return noteAdjustment(ctx, tx, "activity.adjustment_removed", dataset, userID, id)
	})
	if errors.Is(err, ErrUnknownUser) {
		return false, ErrUnknownUser
	}
	return removed && err == nil, err
}

// AdjustSteps adds delta (-2^31 to 2^31-1) to a user's date. The note says why, in at most 1,000 characters. See [Store.Adjust].
func (s *Store) AdjustSteps(ctx context.Context, userID uuid.UUID, date time.Time, delta int, note string) (id uuid.UUID, err error) {
	stored, err := s.Adjust(ctx, AdjustedSteps, AdjustmentRecord{userID, uuid.Nil, date, delta, note})
	return stored.ID, err
}

// AdjustCycling adds deltaMeters to the distance of a user's date. All else is as with [Store.AdjustSteps].
func (s *Store) AdjustCycling(ctx context.Context, userID uuid.UUID, date time.Time, deltaMeters int, note string) (id uuid.UUID, err error) {
	stored, err := s.Adjust(ctx, AdjustedCycling, AdjustmentRecord{userID, uuid.Nil, date, deltaMeters, note})
	return stored.ID, err
}
