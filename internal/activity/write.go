package activity

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/postgres"
)

// PutDailySteps upserts a batch of recorded totals by user and date; of two for one date the last one wins. All are
// taken or none: then the error is a [RowError] with the number of the record, from 1. A batch is held in memory: some
// thousands at a time.
func (a *Activity) PutDailySteps(ctx context.Context, records []StepsRecord) (Result, error) {
	users, dates, steps := make([]uuid.UUID, len(records)), make([]time.Time, len(records)), make([]int, len(records))
	var bad *RowError
	for i, record := range records {
		if err := record.check(); err != nil {
			bad = err.at(i + 1)
			users, dates, steps = users[:i], dates[:i], steps[:i]
			break
		}
		users[i], dates[i], steps[i] = record.UserID, record.Date, record.Steps
	}
	return a.putBatch(ctx, stepsTable.batch(users, dates, steps), len(records), bad)
}

// PutCyclingActivities upserts a batch of rides by user and source id, also when the start has changed. All else is as
// with [Activity.PutDailySteps].
func (a *Activity) PutCyclingActivities(ctx context.Context, records []RideRecord) (Result, error) {
	n := len(records)
	users, sources, meters := make([]uuid.UUID, n), make([]string, n), make([]int, n)
	starts, ends := make([]time.Time, n), make([]*time.Time, n)
	var bad *RowError
	for i, record := range records {
		if err := record.check(); err != nil {
			bad = err.at(i + 1)
			users, sources, starts, ends, meters = users[:i], sources[:i], starts[:i], ends[:i], meters[:i]
			break
		}
		users[i], sources[i], meters[i] = record.UserID, record.SourceID, record.DistanceMeters
		starts[i], ends[i] = record.Start, record.end()
	}
	return a.putBatch(ctx, ridesTable.batch(users, sources, starts, ends, meters), n, bad)
}

func (a *Activity) putBatch(ctx context.Context, batch rowSource, rows int, unreadable *RowError) (Result, error) {
	var result Result
	err := postgres.InTx(ctx, a.pool, func(tx pgx.Tx) (err error) {
		if err := firstBadRow(ctx, tx, batch, unreadable); err != nil {
			return err
		}
		result, err = merge(ctx, tx, batch)
		result.settle(int64(rows))
		return err
	})
	if err != nil {
		return Result{}, fmt.Errorf("activity: put %s: %w", batch.name, err)
	}
	return result, nil
}

// ErrAdjustment is the answer to a correction or adjustment that cannot be taken; its text says why.
var ErrAdjustment = errors.New("invalid adjustment")

// maxNote is how many characters a note may have.
const maxNote = 1000

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
	switch {
	case !dateInBounds(date):
		return fmt.Errorf("%w: date %w", ErrAdjustment, errDate)
	case delta < math.MinInt32 || delta > math.MaxInt32 || delta == 0:
		return fmt.Errorf("%w: delta must be a whole number from -2147483648 to 2147483647, and not 0", ErrAdjustment)
	case !isText(note) || utf8.RuneCountInString(note) > maxNote:
		return fmt.Errorf("%w: note must have at most %d characters of UTF-8 without NUL", ErrAdjustment, maxNote)
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
