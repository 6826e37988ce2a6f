package activity_test

import (
	"errors"
	"regexp"
	"testing"
	"time"

	"connect-svc/internal/domain/activity"
)

func TestParseRange(t *testing.T) {
	t.Parallel()
	reader := activity.Reader{
		HistoryFrom:  day("2026-03-01"),
		RegisteredOn: day("2026-03-05"),
		Now:          time.Date(2026, 5, 10, 23, 59, 59, 0, time.UTC),
	}
	const steps, daily, rides = activity.DatasetDailySteps, activity.DatasetCyclingDaily, activity.DatasetCyclingActivities
	for _, test := range []struct {
		name     string
		from, to string
		datasets []activity.Dataset
		valid    bool
	}{
		{"4.6 one date", "2026-04-01", "2026-04-01", all, true},
		{"4.6 31 dates", "2026-04-01", "2026-05-01", all, true},
		{"7.4 32 dates", "2026-04-01", "2026-05-02", all, false},
		{"4.6 31 dates over the end of February", "2026-03-05", "2026-04-04", all, true},
		{"7.4 from after to", "2026-04-02", "2026-04-01", all, false},
		{"7.4 no from", "", "2026-04-01", all, false},
		{"7.4 no to", "2026-04-01", "", all, false},
		{"7.4 neither", "", "", all, false},
		{"4.6 to is tomorrow in UTC", "2026-05-11", "2026-05-11", all, true},
		{"7.4 to is after tomorrow in UTC", "2026-05-11", "2026-05-12", all, false},
		{"4.6 from is the registration day", "2026-03-05", "2026-03-06", all, true},
		{"4.6 from is history_from, registration was later", "2026-03-01", "2026-03-06", []activity.Dataset{daily, rides}, true},
		{"4.7 steps before the registration day", "2026-03-04", "2026-03-06", []activity.Dataset{steps}, false},
		{"7.4 from before history_from", "2026-02-28", "2026-03-06", all, false},
		{"4.6 the range is not trimmed", "2026-02-28", "2026-03-06", all, false},
		{"4.6 not a day", "2026-04-31", "2026-05-01", all, false},
		{"4.6 no leap year", "2026-02-29", "2026-03-01", all, false},
		{"4.6 month 13", "2026-13-01", "2026-04-01", all, false},
		{"4.6 day 00", "2026-04-00", "2026-04-01", all, false},
		{"4.6 one digit", "2026-4-1", "2026-04-01", all, false},
		{"4.6 other separators", "2026/04/01", "2026-04-01", all, false},
		{"4.6 no separators", "20260401", "2026-04-01", all, false},
		{"4.6 a time", "2026-04-01T00:00:00Z", "2026-04-01", all, false},
		{"4.6 blanks", " 2026-04-01", "2026-04-01", all, false},
		{"4.6 line break", "2026-04-01\n", "2026-04-01", all, false},
		{"4.6 NUL", "2026-04-01\x00", "2026-04-01", all, false},
		{"4.6 sign", "+2026-04-01", "2026-04-01", all, false},
		{"4.6 year of five digits", "12026-04-01", "12026-04-01", all, false},
		{"4.6 other digits", "２０２６-04-01", "2026-04-01", all, false},
		{"4.6 year 0", "0000-01-01", "0000-01-02", all, false},
	} {
		for _, dataset := range test.datasets {
			got, err := activity.ParseRange(reader, test.from, test.to, dataset)
			switch {
			case test.valid && err != nil:
				t.Errorf("%s: ParseRange(%q, %q, %d): %v", test.name, test.from, test.to, dataset, err)
			case test.valid && (got.From != day(test.from) || got.To != day(test.to)):
				t.Errorf("%s: ParseRange(%q, %q, %d) = %v", test.name, test.from, test.to, dataset, got)
			case !test.valid && !errors.Is(err, activity.ErrDateRange):
				t.Errorf("%s: ParseRange(%q, %q, %d): error %v, want ErrDateRange", test.name, test.from, test.to, dataset, err)
			}
		}
	}
}

var all = []activity.Dataset{
	activity.DatasetDailySteps, activity.DatasetCyclingDaily, activity.DatasetCyclingActivities,
}

// 4.6: tomorrow is counted in UTC, whatever the zone that the clock was read in.
func TestParseRangeTomorrowInUTC(t *testing.T) {
	t.Parallel()
	east := time.FixedZone("", 14*3600)
	reader := activity.Reader{HistoryFrom: day("2026-01-01"), Now: time.Date(2026, 5, 11, 1, 0, 0, 0, east)} // 10th in UTC
	if _, err := activity.ParseRange(reader, "2026-05-11", "2026-05-11", activity.DatasetCyclingDaily); err != nil {
		t.Errorf("tomorrow in UTC: %v", err)
	}
	if _, err := activity.ParseRange(reader, "2026-05-12", "2026-05-12", activity.DatasetCyclingDaily); err == nil {
		t.Error("the day after tomorrow in UTC was taken")
	}
}

func FuzzParseRange(f *testing.F) {
	shape := regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`)
	reader := activity.Reader{HistoryFrom: day("2000-01-01"), Now: day("2026-05-10")}
	f.Add("2026-04-01", "2026-05-01")
	f.Add("2024-02-29", "2024-02-30")
	f.Add("2026-4-1", "")
	f.Fuzz(func(t *testing.T, from, to string) {
		dates, err := activity.ParseRange(reader, from, to, activity.DatasetCyclingDaily)
		if err != nil {
			return
		}
		if !shape.MatchString(from) || !shape.MatchString(to) {
			t.Fatalf("took %q, %q", from, to)
		}
		if dates.From.Format(time.DateOnly) != from || dates.To.Format(time.DateOnly) != to {
			t.Fatalf("%q, %q became %v", from, to, dates)
		}
		if n := dates.To.Sub(dates.From) / (24 * time.Hour); n < 0 || n > 30 {
			t.Fatalf("took %q, %q: %d days apart", from, to, n)
		}
		if from < "2000-01-01" || to > "2026-05-11" {
			t.Fatalf("took %q, %q: out of bounds", from, to)
		}
	})
}
