package activity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	activitydb "connect-svc/gen/db/activity"
	"connect-svc/internal/foundation/intake"
	"connect-svc/internal/foundation/refusal"
)

// ErrNoAdjustment is the error for an adjustment that does not exist.
var ErrNoAdjustment = errors.New("no such adjustment")

// Adjusted is the dataset that an adjustment is added to.
type Adjusted string

// The datasets that can be adjusted.
const (
	AdjustedSteps   Adjusted = "daily_steps"
	AdjustedCycling Adjusted = "cycling_daily"
)

// adjusted has all datasets in the order of lists.
var adjusted = [...]Adjusted{AdjustedSteps, AdjustedCycling}

// Adjustment is a correction by support.
type Adjustment struct {
	AdjustmentRecord
	Dataset   Adjusted
	CreatedAt time.Time
	Actor     string // who wrote it last; empty: not known. Only [Store.View] and [Store.LatestAdjustments] set it
}

// CheckAdjustment validates an adjustment before [Store.Adjust], without the database. The error is an [*refusal.FieldError].
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
	return &refusal.FieldError{Field: field, Problem: bad.Err.Error()}
}

// Adjust adds to the recorded total of a user's date, now and after later records of the date: steps, or metres of the day's
// distance, which no ride gets (specification 2.5 to 2.7). A date without a record stays without one. If the user has an adjustment
// of this dataset and id, it is replaced; uuid.Nil stands for a new id. The audit log names the actor of ctx. Errors:
// *refusal.FieldError, refusal.ErrUserNotFound.
func (s *Store) Adjust(ctx context.Context, dataset Adjusted, one AdjustmentRecord) (stored Adjustment, err error) {
	if one.ID == uuid.Nil {
		one.ID = uuid.New()
	}
	batch := Batch{StepCorrections: []AdjustmentRecord{one}}
	if dataset == AdjustedCycling {
		batch = Batch{CyclingAdjustments: []AdjustmentRecord{one}}
	}
	_, err = s.putAnd(ctx, batch, func(tx pgx.Tx, result BatchResult) error {
		if result.StepCorrections.Unchanged+result.CyclingAdjustments.Unchanged == 0 {
			if err := auditAdjustment(ctx, tx, "activity.adjusted", dataset, one); err != nil {
				return err
			}
		}
		stored, err = getAdjustment(ctx, tx, dataset, one.UserID, one.ID)
		return err
	})
	if errors.Is(err, refusal.ErrUserNotFound) {
		return Adjustment{}, refusal.ErrUserNotFound
	}
	if bad := (BatchError)(nil); errors.As(err, &bad) {
		return Adjustment{}, newAdjustmentError(bad[0].RowError)
	}
	return stored, err
}

// RemoveAdjustment removes an adjustment; removed reports that it existed. The audit log names the actor of ctx. Errors:
// refusal.ErrUserNotFound.
func (s *Store) RemoveAdjustment(ctx context.Context, dataset Adjusted, userID, id uuid.UUID) (removed bool, err error) {
	one, err := getAdjustment(ctx, s.pool, dataset, userID, id) // for its date
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return false, fmt.Errorf("activity: remove an adjustment: %w", err)
	}
	batch := Batch{StepCorrectionRemovals: []AdjustmentRecord{{UserID: userID, ID: id}}}
	if dataset == AdjustedCycling {
		batch = Batch{CyclingAdjustmentRemovals: []AdjustmentRecord{{UserID: userID, ID: id}}}
	}
	_, err = s.putAnd(ctx, batch, func(tx pgx.Tx, result BatchResult) error {
		if removed = result.StepCorrectionRemovals.Removed+result.CyclingAdjustmentRemovals.Removed > 0; !removed {
			return nil
		}
		return auditAdjustment(ctx, tx, "activity.adjustment_removed", dataset, one.AdjustmentRecord)
	})
	if errors.Is(err, refusal.ErrUserNotFound) {
		return false, refusal.ErrUserNotFound
	}
	return removed && err == nil, err
}

// auditAdjustment writes to the audit log what the actor of ctx did with an adjustment.
func auditAdjustment(ctx context.Context, tx pgx.Tx, action string, dataset Adjusted, one AdjustmentRecord) error {
	detail := map[string]string{"dataset": string(dataset), "adjustment_id": one.ID.String()}
	if !one.Date.IsZero() {
		detail["date"] = one.Date.Format(time.DateOnly)
	}
	return audit(ctx, activitydb.New(tx), one.UserID, action, detail, false)
}
