package activity_test

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"connect-svc/internal/domain/activity"
	"connect-svc/internal/foundation/scope"
)

// TestToday: what the reads would return of a date, and nothing that they would refuse.
func TestToday(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.newUser(t, "UTC")
	w.putSteps(t, user, "2026-05-09", 1)
	w.putSteps(t, user, "2026-05-10", 4312)
	w.putRides(t,
		activity.RideRecord{UserID: user, SourceID: "a", Start: clock("2026-05-09T23:59:00"), DistanceMeters: 1},
		activity.RideRecord{UserID: user, SourceID: "b", Start: clock("2026-05-10T07:00:00"), DistanceMeters: 5000},
		activity.RideRecord{UserID: user, SourceID: "c", Start: clock("2026-05-10T17:00:00"), DistanceMeters: 2400})
	of := func(reader activity.Reader, scopes scope.Set) activity.Today {
		t.Helper()
		today, err := w.Today(t.Context(), reader, scopes, day("2026-05-10"))
		if err != nil {
			t.Fatal(err)
		}
		return today
	}
	steps, meters := new(int64(4312)), new(int64(7400))
	late, young := w.reader(user), w.reader(user)
	late.HistoryFrom, young.RegisteredOn = day("2026-05-11"), day("2026-05-11")
	for name, test := range map[string]struct {
		got, want activity.Today
	}{
		"all":                   {of(w.reader(user), scope.All), activity.Today{Steps: steps, Meters: meters, Rides: 2, RideMeters: 7400}},
		"steps":                 {of(w.reader(user), scope.DailySteps), activity.Today{Steps: steps}},
		"distance":              {of(w.reader(user), scope.CyclingDaily), activity.Today{Meters: meters}},
		"rides":                 {of(w.reader(user), scope.CyclingActivities), activity.Today{Rides: 2, RideMeters: 7400}},
		"nobody":                {of(w.reader(w.newUser(t, "UTC")), scope.All), activity.Today{}},
		"before history_from":   {of(late, scope.All), activity.Today{}},
		"before the first step": {of(young, scope.All), activity.Today{Meters: meters, Rides: 2, RideMeters: 7400}},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for n := range 499 {
		w.putRides(t, activity.RideRecord{UserID: user, SourceID: strconv.Itoa(n), Start: clock("2026-05-10T12:00:00"), DistanceMeters: 1})
	}
	if got := of(w.reader(user), scope.CyclingActivities); got != (activity.Today{}) {
		t.Errorf("of more rides than are read: %+v", got)
	}
}
