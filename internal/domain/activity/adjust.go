package activity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	activitydb "connect-svc/gen/db/activity"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
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

// CheckAdjustment validates an adjustment before [Store.Adjust], without the database. The error is a [refusal.Field].
func CheckAdjustment(record AdjustmentRecord) error {
	record.ID = cmp.Or(record.ID, uuid.Max) // one that it makes
	if bad := record.checkSteps(); len(bad) > 0 {
		return bad[0]
	}
	return nil
}

// Adjust adds to the recorded total of a user's date, now and after later records of the date: steps, or metres of the day's
// distance, which no ride gets (specification 2.5 to 2.7). A date without a record stays without one. If the user has an adjustment
// of this dataset and id, it is replaced; uuid.Nil stands for a new id. The audit log names the actor of ctx. Errors:
// refusal.Field, refusal.ErrUserNotFound.
func (s *Store) Adjust(ctx context.Context, dataset Adjusted, record AdjustmentRecord) (stored Adjustment, err error) {
	record.ID = cmp.Or(record.ID, uuid.New())
	batch := Batch{StepCorrections: []AdjustmentRecord{record}}
	if dataset == AdjustedCycling {
		batch = Batch{CyclingAdjustments: []AdjustmentRecord{record}}
	}
	_, err = s.putAnd(ctx, batch, func(tx pgx.Tx, result BatchResult) error {
		if result.StepCorrections.Unchanged+result.CyclingAdjustments.Unchanged == 0 {
			if err := auditAdjustment(ctx, tx, "activity.adjusted", dataset, record); err != nil {
				return err
			}
		}
		stored, err = getAdjustment(ctx, tx, dataset, record.UserID, record.ID)
		return err
	})
	if isUnknownUser(err) {
		return Adjustment{}, refusal.ErrUserNotFound
	}
	if errors.Is(err, refusal.ErrFields) {
		return Adjustment{}, cmp.Or(CheckAdjustment(record), error(refusal.Field{Path: "date", Problem: refusal.FieldsOf(err)[0].Problem}))
	}
	return stored, err
}

// RemoveAdjustment removes an adjustment; removed reports that it existed. The audit log names the actor of ctx. Errors:
// refusal.ErrUserNotFound.
func (s *Store) RemoveAdjustment(ctx context.Context, dataset Adjusted, userID, id uuid.UUID) (removed bool, err error) {
	adjustment, err := getAdjustment(ctx, s.pool, dataset, userID, id) // for its date
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
		return auditAdjustment(ctx, tx, "activity.adjustment_removed", dataset, adjustment.AdjustmentRecord)
	})
	if isUnknownUser(err) {
		return false, refusal.ErrUserNotFound
	}
	return removed && err == nil, err
}

// isUnknownUser reports whether a batch was refused because a user of its rows does not exist.
func isUnknownUser(err error) bool {
	return slices.ContainsFunc(refusal.FieldsOf(err), func(field refusal.Field) bool { return field.Problem == refusal.ErrUserNotFound.Error() })
}

// auditAdjustment writes to the audit log what the actor of ctx did with an adjustment.
func auditAdjustment(ctx context.Context, tx pgx.Tx, action string, dataset Adjusted, record AdjustmentRecord) error {
	detail := map[string]string{"dataset": string(dataset), "adjustment_id": record.ID.String()}
	if !record.Date.IsZero() {
		detail["date"] = record.Date.Format(time.DateOnly)
	}
	return audit(ctx, activitydb.New(tx), record.UserID, action, detail, false)
}

// number returns the dataset's place among adjustments of the same time.
func (a Adjusted) number() int64 { return int64(slices.Index(adjusted[:], a)) }

// Key returns the adjustment's place in a list by date.
func (a Adjustment) Key() page.Key { return page.Key{At: a.Date, N: a.Dataset.number(), ID: a.ID} }

// LatestKey returns the adjustment's place in a list by creation time, newest first.
func (a Adjustment) LatestKey() page.Key {
	return page.Key{At: a.CreatedAt, N: a.Dataset.number(), ID: a.ID}
}

// adjustmentsAfter returns the date and id after which a list by date continues in one dataset.
func adjustmentsAfter(key page.Key, dataset Adjusted) (time.Time, uuid.UUID) {
	switch n := dataset.number(); {
	case key == page.Key{}, key.N == n:
		return key.At, key.ID
	case n < key.N:
		return key.At, uuid.Max
	}
	return key.At.AddDate(0, 0, -1), uuid.Max
}

// adjustmentsBefore returns the time and id before which a list of the newest continues in one dataset.
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

// GetAdjustment returns an adjustment by its id. Errors: ErrNoAdjustment.
func (s *Store) GetAdjustment(ctx context.Context, dataset Adjusted, userID, id uuid.UUID) (Adjustment, error) {
	adjustment, err := getAdjustment(ctx, s.pool, dataset, userID, id)
	return adjustment, postgres.WrapNoRows("activity: adjustment", err, ErrNoAdjustment)
}

// Adjustments lists the adjustments of a user by date: at most limit of them, those after a key. An unknown user has none.
func (s *Store) Adjustments(ctx context.Context, userID uuid.UUID, after page.Key, limit int) ([]Adjustment, error) {
	all, err := listAdjustments(ctx, activitydb.New(s.pool), userID, after, limit)
	return all, postgres.Wrap("activity: adjustments", err)
}

func listAdjustments(ctx context.Context, queries *activitydb.Queries, userID uuid.UUID, after page.Key, limit int) ([]Adjustment, error) {
	params := activitydb.ListAdjustmentsParams{UserID: userID, MaxRows: int32(limit)}
	params.StepsDate, params.StepsID = adjustmentsAfter(after, AdjustedSteps)
	params.CyclingDate, params.CyclingID = adjustmentsAfter(after, AdjustedCycling)
	rows, err := queries.ListAdjustments(ctx, params)
	return postgres.Map(rows, func(row activitydb.ListAdjustmentsRow) Adjustment { return adjustmentOf(userID, row) }), err
}

// LatestAdjustments lists the adjustments in datasets of a user, newest first: at most limit of them, those before a key.
func (s *Store) LatestAdjustments(ctx context.Context, userID uuid.UUID, datasets []Adjusted, before page.Key, limit int) ([]Adjustment, error) {
	params := activitydb.ListLatestAdjustmentsParams{
		UserID: userID, MaxRows: int32(limit),
		Steps: slices.Contains(datasets, AdjustedSteps), Cycling: slices.Contains(datasets, AdjustedCycling),
	}
	params.StepsAt, params.StepsID = adjustmentsBefore(before, AdjustedSteps)
	params.CyclingAt, params.CyclingID = adjustmentsBefore(before, AdjustedCycling)
	queries := activitydb.New(s.pool)
	rows, err := queries.ListLatestAdjustments(ctx, params)
	all := postgres.Map(rows, func(row activitydb.ListLatestAdjustmentsRow) Adjustment {
		return adjustmentOf(userID, activitydb.ListAdjustmentsRow(row))
	})
	if len(all) > 0 {
		_, err = nameActors(ctx, queries, userID, all)
	}
	return all, postgres.Wrap("activity: latest adjustments", err)
}

func adjustmentOf(userID uuid.UUID, row activitydb.ListAdjustmentsRow) Adjustment {
	return Adjustment{AdjustmentRecord{userID, row.ID, row.Date, int(row.Delta), row.Note}, adjusted[row.Dataset], row.CreatedAt, ""}
}

func getAdjustment(ctx context.Context, db activitydb.DBTX, dataset Adjusted, userID, id uuid.UUID) (Adjustment, error) {
	if dataset == AdjustedCycling {
		row, err := activitydb.New(db).GetCyclingAdjustment(ctx, activitydb.GetCyclingAdjustmentParams{UserID: userID, AdjustmentID: id})
		return Adjustment{AdjustmentRecord{userID, id, row.Date, int(row.DeltaMeters), row.Note}, dataset, row.CreatedAt, ""}, err
	}
	row, err := activitydb.New(db).GetStepCorrection(ctx, activitydb.GetStepCorrectionParams{UserID: userID, CorrectionID: id})
	return Adjustment{AdjustmentRecord{userID, id, row.Date, int(row.Delta), row.Note}, dataset, row.CreatedAt, ""}, err
}
