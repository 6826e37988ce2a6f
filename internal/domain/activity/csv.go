package activity

import (
	"regexp"
	"strconv"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/foundation/intake"
)

// DailyStepsColumns returns the header of a file of steps.
func DailyStepsColumns() []string { return []string{"user_id", "date", "steps"} }

// CyclingActivitiesColumns returns the header of a file of rides.
func CyclingActivitiesColumns() []string {
	return []string{"user_id", "source_id", "recorded_start_time", "recorded_end_time", "distance_meters"}
}

// A field that cannot be parsed becomes a value that the check of the record refuses.

func parseStepsRow(row []string) (StepsRecord, rowErrors) {
	user, bad := parseUser(row[0])
	date, _ := parseDate(row[1]) // the year 1
	record := StepsRecord{UserID: user, Date: date, Steps: parseCount(row[2])}
	return record, append(bad, record.check()...)
}

func parseRideRow(row []string) (RideRecord, rowErrors) {
	user, bad := parseUser(row[0])
	start, end := parseClock(row[2]), parseClock(row[3]) // an end of the year 1 is unknown (decisions, section 1)
	record := RideRecord{UserID: user, SourceID: row[1], Start: start, End: end, DistanceMeters: parseCount(row[4])}
	return record, append(bad, record.check()...)
}

func parseUser(text string) (id uuid.UUID, bad rowErrors) {
	id, err := intake.ParseUUID(text)
	bad.unless(err == nil, "user_id", intake.ErrUUID)
	return id, bad
}

// parseCount returns -1 for a malformed count.
func parseCount(text string) int {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return -1
	}
	return int(n) //nolint:gosec // 31 bits
}

// clockLayout also accepts up to nine fractional digits.
const clockLayout = "2006-01-02T15:04:05"

// clockShape excludes texts that [time.Parse] accepts beyond the format: hours of one digit, a comma, more fractional digits.
var clockShape = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?$`)

// parseClock returns a time in the year 1 for a malformed time and for one that does not exist.
func parseClock(text string) (at time.Time) {
	if clockShape.MatchString(text) {
		at, _ = time.Parse(clockLayout, text)
	}
	return at
}
