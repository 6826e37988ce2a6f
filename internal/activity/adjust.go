package activity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// ErrAdjustment says that an adjustment cannot be taken; its text says why. The error is an [*AdjustmentError].
var ErrAdjustment = errors.New("invalid adjustment")

// AdjustmentError says which field of an adjustment is wrong: date, delta or note.
type AdjustmentError struct {
	Field  string
	Reason error // what is accepted
}

func (e *AdjustmentError) Error() string {
	return fmt.Sprintf("%v: %s %v", ErrAdjustment, e.Field, e.Reason)
}

// Is implements the interface of [errors.Is].
func (e *AdjustmentError) Is(target error) bool { return target == ErrAdjustment }

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

// AdjustmentPosition is where a list of a user's adjustments goes on: after the last one of the page before. The zero value is
// before all.
type AdjustmentPosition struct {
	Date    time.Time
	Dataset Adjusted
	ID      uuid.UUID
}

// Position is the adjustment's place among those of its user.
func (a Adjustment) Position() AdjustmentPosition { return AdjustmentPosition{a.Date, a.Dataset, a.ID} }

// of is where a dataset goes on: (date, id).
func (p AdjustmentPosition) of(dataset Adjusted) (time.Time, uuid.UUID) {
	switch {
	case p == AdjustmentPosition{}, p.Dataset == dataset:
		return p.Date, p.ID
	case dataset == AdjustedSteps: // steps come before cycling of the same day
		return p.Date, uuid.Max
	}
	return p.Date.AddDate(0, 0, -1), uuid.Max
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
			if err := noteAdjustment(ctx, tx, dataset, one); err != nil {
				return err
			}
		}
		stored, err = getAdjustment(ctx, tx, dataset, one)
		return err
	})
	if errors.Is(err, ErrUnknownUser) {
		return Adjustment{}, ErrUnknownUser
	}
	if bad := (BatchError)(nil); errors.As(err, &bad) {
		field := bad[0].Column
		if field == "delta_meters" {
			field = "delta"
		}
		return Adjustment{}, &AdjustmentError{field, bad[0].Err}
	}
	return stored, err
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
