package pages

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"connect-svc/internal/domain/activity"
	"connect-svc/internal/foundation/scope"
)

// record stores steps and rides of the user.
func (f *fixture) record(t *testing.T, date time.Time, steps int32, meters ...int32) {
	t.Helper()
	batch := activity.Batch{DailySteps: []activity.StepsRecord{{UserID: f.User.ID, Date: date, Steps: int(steps)}}}
	for n, one := range meters {
		batch.CyclingActivities = append(batch.CyclingActivities, activity.RideRecord{
			UserID: f.User.ID, SourceID: date.Format(time.DateOnly) + string(rune('a'+n)), Start: date.Add(time.Duration(n) * time.Hour), DistanceMeters: int(one),
		})
	}
	if _, err := f.Activity.Put(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
}

// TestConsentShowsToday: what the partner could read of the day, in the scopes that it asks for, and nothing of before.
func TestConsentShowsToday(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	today := noon.Truncate(24 * time.Hour)
	f.record(t, today.AddDate(0, 0, -1), 111, 2222)
	says := func(scopes scope.Set, want string) {
		t.Helper()
		v := f.visitor(t)
		base := v.open(scopes)
		v.signedIn(base)
		if got := strings.ReplaceAll(said(v.Get(base+"/consent").Find(".so-far")), "\u00a0", " "); got != want {
			t.Errorf("%s: %q, want %q", scopes, got, want)
		}
	}
	says(scope.All, "")
	f.record(t, today, 4312, 7400)
	says(scope.All, "Today so far: 4,312 steps, 1 ride of 7.4 km")
	says(scope.DailySteps, "Today so far: 4,312 steps")
	says(scope.CyclingDaily, "Today so far: 7.4 km by bike")
	says(scope.CyclingActivities, "Today so far: 1 ride of 7.4 km")
	f.record(t, today, 4312, 7400, 860)
	f.DB.Exec(t, `insert into cycling_adjustments (user_id, adjustment_id, date, delta_meters, note, created_at)
		values ($1, gen_random_uuid(), '2026-11-21', -260, '', now())`, f.User.ID)
	says(scope.All, "Today so far: 4,312 steps, 2 rides of 8.3 km in all, 8.0 km by bike")
	f.connect(t, scope.All)
	says(scope.All, "Today so far: 4,312 steps, 2 rides of 8.3 km in all, 8.0 km by bike")
	says(scope.DailySteps, "") // a mismatch, which cannot be allowed
}

// TestConsentWithoutActivity: the page does not need what it shows of the day.
func TestConsentWithoutActivity(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	f.record(t, noon.Truncate(24*time.Hour), 4312)
	v := f.visitor(t)
	base := v.open(scope.All)
	v.signedIn(base)
	f.DB.Exec(t, "alter table daily_steps rename to gone")
	shown := v.Get(base + "/consent")
	if shown.StatusCode != http.StatusOK || shown.Find(".so-far").Length() != 0 {
		t.Errorf("status %d, %q", shown.StatusCode, said(shown.Find(".so-far")))
	}
	if !strings.Contains(f.Log.String(), "consent without today") {
		t.Error("the log does not say why")
	}
	if got := v.Location(v.Post(base+"/consent", "decision", "allow")); !strings.Contains(got, "code=") {
		t.Errorf("location = %q", got)
	}
}
