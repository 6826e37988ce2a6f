package activity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/postgres"
)

// ErrAdjustment is the answer to a correction or adjustment that cannot be taken; its text says why.
var ErrAdjustment = errors.New("invalid adjustment")

// AdjustSteps adds delta (-2^31 to 2^31-1) to what is recorded for a user's date, now and whatever is recorded for it
// later. It makes no date that has no record (specification 2.5). The note says why, in at most 1,000 characters. The
// error is [ErrAdjustment] or [ErrUnknownUser] where the caller is to blame.
func (a *Activity) AdjustSteps(ctx context.Context, userID uuid.UUID, date time.Time, delta int, note string) error {
	if err := checkAdjustment(date, delta, note); err != nil {
		return err
	}
	return adjustmentError(addStepCorrection(ctx, a.pool, userID, date, delta, note))
}

// AdjustCycling adds deltaMeters to the distance of the rides that started on a user's date, and to no ride
// (specification 2.6, 2.7). All else is as with [Activity.AdjustSteps].
func (a *Activity) AdjustCycling(
	ctx context.Context, userID uuid.UUID, date time.Time, deltaMeters int, note string,
) error {
	if err := checkAdjustment(date, deltaMeters, note); err != nil {
		return err
	}
	return adjustmentError(addCyclingAdjustment(ctx, a.pool, userID, date, deltaMeters, note))
}

func checkAdjustment(date time.Time, delta int, note string) error {
	record := AdjustmentRecord{Date: date, Delta: delta, Note: note}
	if bad := record.check("delta"); bad != nil {
		return fmt.Errorf("%w: %s %w", ErrAdjustment, bad.column, bad.err)
	}
	return nil
}

func adjustmentError(err error) error {
	if postgres.IsForeignKeyViolation(err, "") {
		return ErrUnknownUser
	}
	if err != nil {
		return fmt.Errorf("activity: adjust: %w", err)
	}
	return nil
}
