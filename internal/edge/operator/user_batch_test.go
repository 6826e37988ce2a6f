package operator

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

func (f *fixture) putUsers(t testing.TB, rows ...string) answer {
	t.Helper()
	return f.send(t, outgoing{Method: "PUT", Target: "/operator/v1/users", Body: `{"users":[` + strings.Join(rows, ",") + `]}`})
}

func userRow(id, email, timezone, day string) string {
	return fmt.Sprintf(`{"user_id":%q,"email":%q,"timezone":%q,"registered_on":%q}`, id, email, timezone, day)
}

// A batch creates and changes, and can be sent again.
func TestPutUsers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	known, fresh := f.User.ID.String(), uuid.NewString()
	rows := []string{
		userRow(fresh, f.User.Email, "Asia/Tokyo", "2026-02-01"), // the address that the other one gives up
		userRow(known, "moved@example.com", "UTC", "2026-01-31"),
	}
	for _, want := range []operatorapi.Written{{Rows: 2, Inserted: 1, Updated: 1}, {Rows: 2, Unchanged: 2}} {
		got := f.putUsers(t, rows...)
		got.Check(t, 200, "", "put")
		if result := edgetest.Decode[operatorapi.UserBatchResult](t, got); result.Users != want {
			t.Errorf("result %+v, want %+v", result.Users, want)
		}
	}
	for id, want := range map[string]string{known: "moved@example.com UTC 2026-01-31", fresh: f.User.Email + " Asia/Tokyo 2026-02-01"} {
		user := edgetest.Decode[operatorapi.User](t, f.send(t, outgoing{Method: "GET", Target: "/operator/v1/users/" + id}))
		if got := user.Email + " " + user.Timezone + " " + user.RegisteredOn.String(); got != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
	got := f.putUsers(t)
	got.Check(t, 200, "", "no users")

	// Each user has an entry of the audit log under the name of whoever sent the batch.
	f.send(t, outgoing{Method: "PUT", Target: "/operator/v1/users", Header: as(edgetest.AdaToken), Body: `{"users":[` +
		userRow(known, "moved@example.com", "Asia/Tokyo", "2026-01-31") + "," + userRow(uuid.NewString(), "new@example.com", "UTC", "2026-01-31") + `]}`}).
		Check(t, 200, "", "as ada")
	const entries = "select string_agg(action, ' ' order by action) from audit_log where actor = 'ada'"
	if got := pgtest.Value[string](t, f.DB, entries); got != "user.changed user.created" {
		t.Errorf("ada's entries are %q", got)
	}
}

// Each problem is named by its place, and no user is taken.
func TestPutInvalidUsers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	taken, gone := f.DB.User(t), f.DB.User(t)
	f.send(t, outgoing{Method: "DELETE", Target: "/operator/v1/users/" + gone.ID.String()}).Check(t, 204, "", "delete")
	good := userRow(uuid.NewString(), "good@example.com", "UTC", "2026-01-31")
	f.putUsers(t, good, userRow(uuid.Nil.String(), "nobody", "Mars/Phobos", "2026-01-31"),
		userRow(uuid.NewString(), strings.ToUpper(taken.Email), "UTC", "2026-01-31"), userRow(gone.ID.String(), "x@example.com", "UTC", "2026-01-31"),
		userRow(uuid.NewString(), "GOOD@example.com", "UTC", "2026-01-31"),
	).WantErrors(t, "all that the domain refuses", map[string]string{
		"/users/1/user_id":  "must be a UUID, and not the nil UUID",
		"/users/1/email":    "must be an address such as name@example.com, at most 254 bytes",
		"/users/1/timezone": "must be a name of the time zone database such as Europe/Berlin",
		"/users/2/email":    "another user has this e-mail address",
		"/users/3/user_id":  "a user with this id was deleted, and ids are not used again",
		"/users/4/email":    "another row has this e-mail address",
	})
	f.putUsers(t, good, `{"email":"x@example.com","timezone":"UTC","registered_on":"2026-02-30"}`, `{"role":1}`).WantErrors(t, "what the document refuses",
		map[string]string{
			"/users/1/user_id": "is required", "/users/1/registered_on": "must be a date", "/users/2/email": "is required", "/users/2/role": "is not known",
			"/users/2/user_id": "is required", "/users/2/timezone": "is required", "/users/2/registered_on": "is required",
		})
	rows := make([]string, 10_001)
	for i := range rows {
		rows[i] = userRow(uuid.NewString(), fmt.Sprintf("u%d@example.com", i), "UTC", "2026-01-31")
	}
	f.putUsers(t, rows...).WantErrors(t, "10,001 users", map[string]string{"/users": "must have at most 10000 rows"})
	if n := pgtest.Value[int](t, f.DB, "select count(*)::int from users"); n != 2 {
		t.Errorf("%d users", n)
	}
	got := f.putUsers(t, rows[1:]...)
	got.Check(t, 200, "", "10,000 users")
	if result := edgetest.Decode[operatorapi.UserBatchResult](t, got); result.Users.Inserted != 10_000 {
		t.Errorf("result %+v", result)
	}
	rows = rows[:300]
	for i := range rows {
		rows[i] = strings.Replace(rows[i], `"UTC"`, `"Nowhere"`, 1)
	}
	got = f.putUsers(t, rows...)
	got.Check(t, 422, "invalid-content", "300 bad users")
	if got.Errors["/users/99/timezone"] == "" || len(got.Errors) != 100 {
		t.Errorf("%d errors are named", len(got.Errors))
	}
}

// Days of steps, corrections and adjustments are removed as rides are.
func TestRemovals(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.post(t, activityPath, f.batch(everything)).Check(t, 200, "", "everything")
	const removals = `{"daily_steps_removals":[{USER,"date":"2026-03-09"},{USER,"date":"2026-03-08"}],
		"step_correction_removals":[{USER,"correction_id":"51c3f7de-62c5-4b5e-8a0e-5f7c1f1b9c02"}],
		"cycling_adjustment_removals":[{USER,"adjustment_id":"61c3f7de-62c5-4b5e-8a0e-5f7c1f1b9c03"}]}`
	got := f.post(t, activityPath, f.batch(removals))
	got.Check(t, 200, "", "removals")
	one := operatorapi.Removed{Rows: 1, Removed: 1}
	if result, want := edgetest.Decode[operatorapi.ActivityBatchResult](t, got), (operatorapi.ActivityBatchResult{
		DailyStepsRemovals: operatorapi.Removed{Rows: 2, Removed: 1, Unchanged: 1}, StepCorrectionRemovals: one, CyclingAdjustmentRemovals: one,
	}); result != want {
		t.Errorf("result %+v, want %+v", result, want)
	}
	if rows := f.rows(t); strings.Contains(rows, "steps") || strings.Contains(rows, "correction") || strings.Contains(rows, "adjustment") {
		t.Errorf("rows:\n%s", rows)
	}
	stranger := strings.ReplaceAll(removals, "USER", `"user_id":"`+uuid.NewString()+`"`)
	const nobody = "no such user"
	f.post(t, activityPath, stranger).WantErrors(t, "removals of nobody's", map[string]string{
		"/daily_steps_removals/0/user_id": nobody, "/daily_steps_removals/1/user_id": nobody, "/step_correction_removals/0/user_id": nobody,
		"/cycling_adjustment_removals/0/user_id": nobody,
	})
}
