package activity

import (
	"regexp"
	"strconv"
	"time"

	"connect-svc/internal/intake"
)

// Columns of the two files.
var (
	stepsColumns = []string{"user_id", "date", "steps"}
	ridesColumns = []string{"user_id", "source_id", "recorded_start_time", "recorded_end_time", "distance_meters"}
)

func parseStepsRow(row []string) (record StepsRecord, bad faults) {
	var err error
	record.UserID, err = intake.ParseUUID(row[0])
	bad.unless(err == nil, "user_id", intake.ErrUUID)
	record.Date, err = parseDate(row[1])
	bad.unless(err == nil && dateInBounds(record.Date), "date", errDate)
	record.Steps, err = parseCount(row[2])
	bad.unless(err == nil, "steps", errCount)
	return record, bad
}

func parseRideRow(row []string) (record RideRecord, bad faults) {
	var err error
	record.UserID, err = intake.ParseUUID(row[0])
	bad.unless(err == nil, "user_id", intake.ErrUUID)
	record.SourceID = row[1]
	bad.unless(isSourceID(record.SourceID), "source_id", errSourceID)
	record.Start, err = parseClock(row[2])
	bad.unless(err == nil && yearInBounds(record.Start), "recorded_start_time", errClock)
	if record.End, err = parseClock(row[3]); err != nil {
		record.End = time.Time{} // unknown (decisions, section 1)
	}
	record.DistanceMeters, err = parseCount(row[4])
	bad.unless(err == nil, "distance_meters", errCount)
	return record, bad
}

func parseCount(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err //nolint:gosec // 31 bits
}

// clockLayout also reads up to nine fractional digits.
const clockLayout = "2006-01-02T15:04:05"

// clockShape keeps out what [time.Parse] takes beyond it: hours of one digit, a comma, more fractional digits.
var clockShape = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?$`)

func parseClock(text string) (time.Time, error) {
	if !clockShape.MatchString(text) {
		return time.Time{}, errClock
	}
	return time.Parse(clockLayout, text)
}
