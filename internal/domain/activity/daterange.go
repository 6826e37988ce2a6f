package activity

import (
	"time"

	"connect-svc/internal/foundation/refusal"
)

// maxDates bounds the dates of one request (specification section 8).
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

// until returns the first midnight after the range.
func (r Range) until() time.Time { return r.To.AddDate(0, 0, 1) }

// ParseRange reads the query parameters from and to, empty when missing, under the rules of specification 4.6: both
// are dates YYYY-MM-DD, to is at most 30 days after from and not later than tomorrow in UTC, and from is not before
// the reader's history, nor, for steps, before the user's registration day. Otherwise the error is [ErrDateRange]: a range
// is never trimmed.
func ParseRange(reader Reader, from, to string, dataset Dataset) (Range, error) {
	first, errFrom := parseDate(from)
	last, errTo := parseDate(to)
	refuse := func(reason string) (Range, error) { return Range{}, refusal.Because(ErrDateRange, reason) }
	earliest := reader.FirstDate(dataset)
	switch tomorrow := reader.Now.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1); {
	case errFrom != nil:
		return refuse("from is missing or not a date")
	case errTo != nil:
		return refuse("to is missing or not a date")
	case last.Before(first):
		return refuse("to is before from")
	case !last.Before(first.AddDate(0, 0, maxDates)):
		return refuse("from and to are more than 30 days apart")
	case last.After(tomorrow):
		return refuse("to is later than tomorrow in UTC")
	case first.Before(earliest) && earliest.Equal(reader.HistoryFrom):
		return refuse("from is before history_from of the connection")
	case first.Before(earliest):
		return refuse("from is before the user registered")
	}
	return Range{From: first, To: last}, nil
}

// FirstDate returns the first date of a dataset that the reader may read.
func (r Reader) FirstDate(dataset Dataset) time.Time {
	if dataset == DatasetDailySteps && r.RegisteredOn.After(r.HistoryFrom) {
		return r.RegisteredOn
	}
	return r.HistoryFrom
}

// parseDate parses YYYY-MM-DD, a day that exists: [time.Parse] accepts nothing else for this layout.
func parseDate(text string) (time.Time, error) { return time.Parse(time.DateOnly, text) }
