package activity

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	activitydb "connect-svc/gen/db/activity"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/postgres"
)

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
	found, err := getAdjustment(ctx, s.pool, dataset, userID, id)
	return found, postgres.WrapNoRows("activity: adjustment", err, ErrNoAdjustment)
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
func (s *Store) LatestAdjustments(
	ctx context.Context, userID uuid.UUID, datasets []Adjusted, before page.Key, limit int,
) ([]Adjustment, error) {
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

func getAdjustment(ctx context.Context, from activitydb.DBTX, dataset Adjusted, userID, id uuid.UUID) (Adjustment, error) {
	if dataset == AdjustedCycling {
		row, err := activitydb.New(from).GetCyclingAdjustment(ctx, activitydb.GetCyclingAdjustmentParams{UserID: userID, AdjustmentID: id})
		return Adjustment{AdjustmentRecord{userID, id, row.Date, int(row.DeltaMeters), row.Note}, dataset, row.CreatedAt, ""}, err
	}
	row, err := activitydb.New(from).GetStepCorrection(ctx, activitydb.GetStepCorrectionParams{UserID: userID, CorrectionID: id})
	return Adjustment{AdjustmentRecord{userID, id, row.Date, int(row.Delta), row.Note}, dataset, row.CreatedAt, ""}, err
}
