package activity_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/domain/activity"
)

// april is the range of most tests.
var april = activity.Range{From: day("2026-04-01"), To: day("2026-04-30")}

func TestDailySteps(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name        string
		recorded    map[string]int
		corrections map[string][]int
		want        []activity.Steps
	}{
		{name: "2.5 no record: no rows"},
		{
			name:     "2.5 ascending, absent dates are absent, zero is zero",
			recorded: map[string]int{"2026-04-03": 30, "2026-04-01": 10, "2026-04-09": 0},
			want: []activity.Steps{
				{Date: day("2026-04-01"), Steps: 10}, {Date: day("2026-04-03"), Steps: 30}, {Date: day("2026-04-09")},
			},
		},
		{
			name: "4.7 both ends are inclusive, nothing beyond them",
			recorded: map[string]int{
				"2026-03-31": 1, "2026-04-01": 2, "2026-04-30": 3, "2026-05-01": 4,
			},
			want: []activity.Steps{{Date: day("2026-04-01"), Steps: 2}, {Date: day("2026-04-30"), Steps: 3}},
		},
		{
			name:        "2.5 recorded total plus corrections",
			recorded:    map[string]int{"2026-04-01": 1000, "2026-04-02": 1000},
			corrections: map[string][]int{"2026-04-01": {500, -200}},
			want:        []activity.Steps{{Date: day("2026-04-01"), Steps: 1300}, {Date: day("2026-04-02"), Steps: 1000}},
		},
		{
			name:        "2.5 a correction of the last date alone",
			recorded:    map[string]int{"2026-04-30": 1000},
			corrections: map[string][]int{"2026-04-30": {500}, "2026-05-01": {100}},
			want:        []activity.Steps{{Date: day("2026-04-30"), Steps: 1500}},
		},
		{
			name:        "2.5 never below zero",
			recorded:    map[string]int{"2026-04-01": 1000},
			corrections: map[string][]int{"2026-04-01": {-5000, 10}},
			want:        []activity.Steps{{Date: day("2026-04-01")}},
		},
		{
			name:        "2.5 a correction alone makes no date",
			corrections: map[string][]int{"2026-04-01": {5000}},
		},
		{
			name:        "2.5 sums beyond 32 bits",
			recorded:    map[string]int{"2026-04-01": 2147483647},
			corrections: map[string][]int{"2026-04-01": {2147483647, 2147483647}},
			want:        []activity.Steps{{Date: day("2026-04-01"), Steps: 6442450941}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			user, other := w.newUser(t, "UTC"), w.newUser(t, "UTC")
			for date, steps := range test.recorded {
				w.putSteps(t, user, date, steps)
			}
			w.putSteps(t, other, "2026-04-05", 99)
			for date, deltas := range test.corrections {
				for _, delta := range deltas {
					if _, err := w.Adjust(t.Context(), activity.AdjustedSteps, activity.AdjustmentRecord{UserID: user, Date: day(date), Delta: delta, Note: "asked for by the user"}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if _, err := w.Adjust(t.Context(), activity.AdjustedSteps, activity.AdjustmentRecord{UserID: other, Date: day("2026-04-01"), Delta: 7777}); err != nil {
				t.Fatal(err)
			}
			got, err := w.DailySteps(t.Context(), user, april)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("DailySteps (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCyclingDaily(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name        string
		rides       map[string]int // start: metres
		adjustments map[string][]int
		want        []activity.CyclingDay
	}{
		{name: "2.6 no rides: no rows"},
		{
			name: "2.6 sums by start date",
			rides: map[string]int{
				"2026-04-02T08:00:00": 1000, "2026-04-02T23:59:59.999999": 500, "2026-04-01T00:00:00": 200,
			},
			want: []activity.CyclingDay{
				{Date: day("2026-04-01"), DistanceMeters: 200}, {Date: day("2026-04-02"), DistanceMeters: 1500},
			},
		},
		{
			name: "4.8 both ends are inclusive, nothing beyond them",
			rides: map[string]int{
				"2026-03-31T23:59:59.999999": 1, "2026-04-01T00:00:00": 2, "2026-04-30T23:59:59.999999": 3,
				"2026-05-01T00:00:00": 4,
			},
			want: []activity.CyclingDay{
				{Date: day("2026-04-01"), DistanceMeters: 2}, {Date: day("2026-04-30"), DistanceMeters: 3},
			},
		},
		{
			name:        "2.6 with the adjustments of that date",
			rides:       map[string]int{"2026-04-02T08:00:00": 1000, "2026-04-03T08:00:00": 1000},
			adjustments: map[string][]int{"2026-04-02": {300, -100}},
			want: []activity.CyclingDay{
				{Date: day("2026-04-02"), DistanceMeters: 1200}, {Date: day("2026-04-03"), DistanceMeters: 1000},
			},
		},
		{
			name:        "2.6 an adjustment of the first date alone",
			rides:       map[string]int{"2026-04-01T00:00:00": 1000},
			adjustments: map[string][]int{"2026-03-31": {100}, "2026-04-01": {300}},
			want:        []activity.CyclingDay{{Date: day("2026-04-01"), DistanceMeters: 1300}},
		},
		{
			name:        "2.6 an adjustment of the last date alone",
			rides:       map[string]int{"2026-04-30T23:59:59.999999": 1000},
			adjustments: map[string][]int{"2026-04-30": {300}, "2026-05-01": {100}},
			want:        []activity.CyclingDay{{Date: day("2026-04-30"), DistanceMeters: 1300}},
		},
		{
			name:        "2.6 never below zero",
			rides:       map[string]int{"2026-04-02T08:00:00": 1000},
			adjustments: map[string][]int{"2026-04-02": {-1001}},
			want:        []activity.CyclingDay{{Date: day("2026-04-02")}},
		},
		{
			name:        "2.6 an adjustment alone makes no date",
			adjustments: map[string][]int{"2026-04-02": {1001}},
		},
		{
			name:  "2.6 a ride without distance makes a date",
			rides: map[string]int{"2026-04-02T08:00:00": 0},
			want:  []activity.CyclingDay{{Date: day("2026-04-02")}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			user, other := w.newUser(t, "UTC"), w.newUser(t, "UTC")
			for start, meters := range test.rides {
				w.putRides(t, activity.RideRecord{UserID: user, SourceID: start, Start: clock(start), DistanceMeters: meters})
			}
			w.putRides(t, activity.RideRecord{UserID: other, SourceID: "a", Start: clock("2026-04-02T08:00:00"), DistanceMeters: 9})
			for date, deltas := range test.adjustments {
				for _, delta := range deltas {
					if _, err := w.Adjust(t.Context(), activity.AdjustedCycling, activity.AdjustmentRecord{UserID: user, Date: day(date), Delta: delta}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if _, err := w.Adjust(t.Context(), activity.AdjustedCycling, activity.AdjustmentRecord{UserID: other, Date: day("2026-04-02"), Delta: 7777}); err != nil {
				t.Fatal(err)
			}
			got, err := w.CyclingDaily(t.Context(), user, april)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("CyclingDaily (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRides(t *testing.T) {
	t.Parallel()
	const start = "2026-04-02T08:00:00"
	for _, test := range []struct {
		name      string
		ride      activity.RideRecord
		wantDate  string
		wantStart string
		wantEnd   string // empty: null
	}{
		{
			name:     "2.7 six fractional digits",
			ride:     activity.RideRecord{Start: clock(start), End: clock("2026-04-02T09:30:00.5")},
			wantDate: "2026-04-02", wantStart: "2026-04-02T08:00:00.000000", wantEnd: "2026-04-02T09:30:00.500000",
		},
		{
			name:     "2.7 microseconds, and the start date of a ride past midnight",
			ride:     activity.RideRecord{Start: clock("2026-04-02T23:59:59.999999"), End: clock("2026-04-03T00:00:00.000001")},
			wantDate: "2026-04-02", wantStart: "2026-04-02T23:59:59.999999", wantEnd: "2026-04-03T00:00:00.000001",
		},
		{
			name:     "2.7 unknown end",
			ride:     activity.RideRecord{Start: clock(start)},
			wantDate: "2026-04-02", wantStart: "2026-04-02T08:00:00.000000",
		},
		{
			name:     "2.7 end before the start",
			ride:     activity.RideRecord{Start: clock(start), End: clock("2026-04-02T07:59:59.999999")},
			wantDate: "2026-04-02", wantStart: "2026-04-02T08:00:00.000000",
		},
		{
			name:     "2.7 end at the start",
			ride:     activity.RideRecord{Start: clock(start), End: clock(start)},
			wantDate: "2026-04-02", wantStart: "2026-04-02T08:00:00.000000", wantEnd: "2026-04-02T08:00:00.000000",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			reader := w.reader(w.newUser(t, "UTC"))
			test.ride.UserID, test.ride.SourceID, test.ride.DistanceMeters = reader.UserID, "source-1", 1234
			w.putRides(t, test.ride)
			// 2.7: support adjustments are not allocated to activities.
			if _, err := w.Adjust(t.Context(), activity.AdjustedCycling, activity.AdjustmentRecord{UserID: reader.UserID, Date: day(test.wantDate), Delta: 500}); err != nil {
				t.Fatal(err)
			}
			page, err := w.CyclingPage(t.Context(), reader, april, 100, "")
			if err != nil {
				t.Fatal(err)
			}
			rides := slices.Collect(page.Rides())
			if len(rides) != 1 || page.NextCursor != "" {
				t.Fatalf("CyclingPage = %+v", page)
			}
			want := activity.Ride{
				ID: rides[0].ID, StartTime: clock(test.wantStart), DistanceMeters: 1234,
			}
			if test.wantEnd != "" {
				end := clock(test.wantEnd)
				want.EndTime = &end
			}
			if diff := cmp.Diff(want, rides[0]); diff != "" {
				t.Errorf("ride (-want +got):\n%s", diff)
			}
		})
	}
}

// 2.7: the id is stable for this activity, user and client; it shows nothing of the source's own name.
func TestRideID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	reader := w.reader(w.newUser(t, "UTC"))
	sameName := w.reader(w.newUser(t, "UTC"))
	sameName.ClientID = reader.ClientID
	otherClient := reader
	otherClient.ClientID = uuid.New()
	for _, user := range []uuid.UUID{reader.UserID, sameName.UserID} {
		w.putRides(t, activity.RideRecord{UserID: user, SourceID: "source-1", Start: clock("2026-04-02T08:00:00")})
	}
	id := func(reader activity.Reader) string {
		t.Helper()
		page, err := w.CyclingPage(t.Context(), reader, april, 100, "")
		if err != nil {
			t.Fatal(err)
		}
		return slices.Collect(page.Rides())[0].ID
	}
	first := id(reader)
	if !regexp.MustCompile(`^ca_[A-Za-z0-9_-]{43}$`).MatchString(first) || strings.Contains(first, "source-1") {
		t.Errorf("id %q", first)
	}
	if id(otherClient) == first {
		t.Error("another client sees the same id")
	}
	if id(sameName) == first {
		t.Error("another user's ride has the same id")
	}
	w.putRides(t, activity.RideRecord{
		UserID: reader.UserID, SourceID: "source-1", Start: clock("2026-04-03T08:00:00"), DistanceMeters: 5,
	})
	reader.ConnectionVersion++
	if again := id(reader); again != first {
		t.Errorf("id changed from %s to %s with the start and the connection version", first, again)
	}
}
