package activity

import (
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/foundation/intake"
	"connect-svc/internal/foundation/postgres"
)

// maxBatchRows bounds the rows of a batch, in all its parts together.
const maxBatchRows = 10_000

// Batch holds rows that are written together: 10,000 at most.
type Batch struct {
	DailySteps         []StepsRecord      // upserted by user and date
	CyclingActivities  []RideRecord       // upserted by user and source id, even if the start has changed
	StepCorrections    []AdjustmentRecord // upserted by user and id, even if the date has changed
	CyclingAdjustments []AdjustmentRecord // the same

	// Rows to delete, by their keys; the other fields are ignored. A row that does not exist is not an error. The corrections of a
	// deleted day stay, and count again if the day is recorded again.
	DailyStepsRemovals        []StepsRecord
	Removals                  []RideRecord
	StepCorrectionRemovals    []AdjustmentRecord
	CyclingAdjustmentRemovals []AdjustmentRecord

	noClock []BadRow // rides with times that do not exist, such as 25:00
}

// AddRide adds a ride whose clock times are text that a JSON schema has checked for its form. A nil end is unknown. [Store.Put]
// reports times that do not exist.
func (b *Batch) AddRide(userID uuid.UUID, sourceID, start string, end *string, meters int) {
	ride := RideRecord{UserID: userID, SourceID: sourceID, DistanceMeters: meters}
	read := func(column, text string) time.Time {
		at, err := time.Parse(clockLayout, text)
		if err != nil {
			row := intake.RowError{Line: len(b.CyclingActivities) + 1, Column: column, Err: errNoClock}
			b.noClock = append(b.noClock, BadRow{PartCyclingActivities, &row})
		}
		return at
	}
	ride.Start = read("recorded_start_time", start)
	if end != nil {
		ride.End = read("recorded_end_time", *end)
	}
	b.CyclingActivities = append(b.CyclingActivities, ride)
}

// BatchResult counts the outcomes of the rows of each part.
type BatchResult struct {
	DailySteps, CyclingActivities, StepCorrections, CyclingAdjustments Result

	DailyStepsRemovals, Removals, StepCorrectionRemovals, CyclingAdjustmentRemovals Removed
}

// Removed counts rows of a part that deletes.
type Removed struct {
	Removed   int64
	Rows      int64
	Unchanged int64 // did not exist, or named twice
}

// Part is one of the lists of a [Batch], by its name in JSON documents.
type Part string

// The parts, in the order in which their rows are checked.
const (
	PartDailySteps                Part = "daily_steps"
	PartCyclingActivities         Part = "cycling_activities"
	PartStepCorrections           Part = "step_corrections"
	PartCyclingAdjustments        Part = "cycling_adjustments"
	PartDailyStepsRemovals        Part = "daily_steps_removals"
	PartRemovals                  Part = "removals"
	PartStepCorrectionRemovals    Part = "step_correction_removals"
	PartCyclingAdjustmentRemovals Part = "cycling_adjustment_removals"
)

// BadRow is an invalid row of a batch. Its line is its number in its part, from 1.
type BadRow struct {
	Part Part
	*intake.RowError
}

// Path returns the path of the field in a JSON document that has the lists of a [Batch].
func (r BadRow) Path() []string { return []string{string(r.Part), strconv.Itoa(r.Line - 1), r.Column} }

// BatchError lists the invalid rows of a batch, in the order of parts and rows, up to 100. Nothing of the batch was written.
type BatchError []BadRow

func (e BatchError) Error() string {
	return fmt.Sprintf("%d faults in rows, the first in %s: %v", len(e), e[0].Part, e[0].RowError)
}

// Unwrap returns the error of each row.
func (e BatchError) Unwrap() []error {
	return postgres.Map(e, func(row BadRow) error { return row.RowError })
}

// ErrBatchSize is the error for a batch with too many rows.
var ErrBatchSize = fmt.Errorf("must have at most %d rows in all", maxBatchRows)
