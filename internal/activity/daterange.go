package activity

import "time"

// maxDates of one request (specification section 8).
const maxDates = 31

// Dataset is one of the three reads.
type Dataset int

// The datasets.
const (
	DatasetDailySteps Dataset = iota + 1
	DatasetCyclingDaily
	DatasetCyclingActivities
)

// Range is 1 to 31 dates, all of which a reader may read: midnights in UTC, both inclusive.
type Range struct {
	From, To time.Time
}

// until is the first midnight after the range.
func (r Range) until() time.Time { return r.To.AddDate(0, 0, 1) }

// ParseRange reads the query parameters from and to, empty when missing, under the rules of specification 4.6: both
// are dates YYYY-MM-DD, to is at most 30 days after from and not later than tomorrow in UTC, and from is not before
// the reader's history, nor, for steps, before the user's registration day. Everything else is [ErrDateRange]: a range
// is never trimmed.
func ParseRange(reader Reader, from, to string, dataset Dataset) (Range, error) {
	first, errFrom := parseDate(from)
	last, errTo := parseDate(to)
	if errFrom != nil || errTo != nil {
		return Range{}, ErrDateRange
	}
	switch tomorrow := reader.Now.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1); {
	case last.Before(first),
		!last.Before(first.AddDate(0, 0, maxDates)),
		last.After(tomorrow),
		first.Before(reader.HistoryFrom),
		dataset == DatasetDailySteps && first.Before(reader.RegisteredOn):
		return Range{}, ErrDateRange
	}
	return Range{From: first, To: last}, nil
}

// parseDate reads YYYY-MM-DD, a day that exists: [time.Parse] takes nothing else for this layout.
func parseDate(text string) (time.Time, error) { return time.Parse(time.DateOnly, text) }
