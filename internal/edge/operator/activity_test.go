package operator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/edge/contract"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

const activityPath = "/operator/v1/activity"

// rows is all recorded activity, a line each.
func (f *fixture) rows(t *testing.T) string {
	t.Helper()
	return pgtest.Value[string](t, f.DB, `select coalesce(string_agg(line, E'\n' order by line), '') from (
		select concat_ws(' ', 'steps', date, steps) from daily_steps
		union all select concat_ws(' ', 'ride', source_id, start_time, end_time, distance_meters) from cycling_activities
		union all select concat_ws(' ', 'correction', left(correction_id::text, 2), date, delta, note) from step_corrections
		union all select concat_ws(' ', 'adjustment', left(adjustment_id::text, 2), date, delta_meters, note) from cycling_adjustments
	) as all_rows (line)`)
}

// batch is the text with USER as the user's id.
func (f *fixture) batch(text string) string {
	return strings.ReplaceAll(text, "USER", `"user_id":"`+f.User.ID.String()+`"`)
}

const everything = `{
	"daily_steps": [{USER,"date":"2026-03-09","steps":8421}],
	"cycling_activities": [
		{USER,"source_id":"r1","recorded_start_time":"2026-03-09T07:45:00","recorded_end_time":"2026-03-09T08:20:30.5","distance_meters":12840},
		{USER,"source_id":"r2","recorded_start_time":"2026-03-09T09:00:00.123456","recorded_end_time":null,"distance_meters":0}],
	"step_corrections": [{USER,"correction_id":"51c3f7de-62c5-4b5e-8a0e-5f7c1f1b9c02","date":"2026-03-09","delta":-500,"note":"swing"}],
	"cycling_adjustments": [{USER,"adjustment_id":"61c3f7de-62c5-4b5e-8a0e-5f7c1f1b9c03","date":"2026-03-09","delta_meters":1200,"note":""}],
	"removals": [{USER,"source_id":"r0"}]
}`

// A batch of everything, which can be sent again; and what its keys replace.
func TestPutActivity(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	put := func(body string, want operatorapi.ActivityBatchResult, rows string) {
		t.Helper()
		before := len(f.Log.String())
		got := f.post(t, activityPath, f.batch(body))
		got.Check(t, 200, "", body)
		if event, n := f.Log.String()[before:], strings.Count(body, "{USER"); n > 0 && strings.Count(event, fmt.Sprintf(`"rows":%d,`, n)) != 1 {
			t.Errorf("the event does not have %d rows: %s", n, event)
		}
		if diff := cmp.Diff(want, edgetest.Decode[operatorapi.ActivityBatchResult](t, got)); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(rows, f.rows(t)); diff != "" {
			t.Errorf("rows (-want +got):\n%s", diff)
		}
	}
	inserted, unchanged := operatorapi.Written{Rows: 1, Inserted: 1}, operatorapi.Written{Rows: 1, Unchanged: 1}
	put(`{"cycling_activities":[{USER,"source_id":"r0","recorded_start_time":"2026-03-08T07:45:00","distance_meters":1}]}`,
		operatorapi.ActivityBatchResult{CyclingActivities: inserted}, "ride r0 2026-03-08 07:45:00 1")
	const first = "adjustment 61 2026-03-09 1200 \ncorrection 51 2026-03-09 -500 swing\n" +
		"ride r1 2026-03-09 07:45:00 2026-03-09 08:20:30.5 12840\nride r2 2026-03-09 09:00:00.123456 0\nsteps 2026-03-09 8421"
	put(everything, operatorapi.ActivityBatchResult{
		DailySteps: inserted, CyclingActivities: operatorapi.Written{Rows: 2, Inserted: 2}, StepCorrections: inserted,
		CyclingAdjustments: inserted, Removals: operatorapi.Removed{Rows: 1, Removed: 1},
	}, first)
	put(everything, operatorapi.ActivityBatchResult{
		DailySteps: unchanged, CyclingActivities: operatorapi.Written{Rows: 2, Unchanged: 2}, StepCorrections: unchanged,
		CyclingAdjustments: unchanged, Removals: operatorapi.Removed{Rows: 1, Unchanged: 1},
	}, first)
	put(`{"daily_steps":[{USER,"date":"2026-03-09","steps":1},{USER,"date":"2026-03-09","steps":2}],"removals":[{USER,"source_id":"r2"}],
		"step_corrections":[{USER,"correction_id":"51c3f7de-62c5-4b5e-8a0e-5f7c1f1b9c02","date":"2026-03-07","delta":3,"note":"no swing"}]}`,
		operatorapi.ActivityBatchResult{
			DailySteps:      operatorapi.Written{Rows: 2, Updated: 1, Unchanged: 1},
			StepCorrections: operatorapi.Written{Rows: 1, Updated: 1}, Removals: operatorapi.Removed{Rows: 1, Removed: 1},
		}, "adjustment 61 2026-03-09 1200 \ncorrection 51 2026-03-07 3 no swing\n"+
			"ride r1 2026-03-09 07:45:00 2026-03-09 08:20:30.5 12840\nsteps 2026-03-09 2")
	put(`{"removals":[]}`, operatorapi.ActivityBatchResult{}, f.rows(t))

	// The instant of a row comes before that of the batch. An older row is not taken, and the batch succeeds.
	seen := func(batch, row string) string {
		return `{"observed_at":"` + batch + `","daily_steps":[{USER,"date":"2026-03-09","steps":` + row + `}],
			"cycling_activities":[{USER,"source_id":"r1","recorded_start_time":"2026-03-09T07:45:00","distance_meters":` + row + `}]}`
	}
	updated, outdated := operatorapi.Written{Rows: 1, Updated: 1}, operatorapi.Written{Rows: 1, Outdated: 1}
	const stored = "adjustment 61 2026-03-09 1200 \ncorrection 51 2026-03-07 3 no swing\nride r1 2026-03-09 07:45:00 9000\nsteps 2026-03-09 9000"
	put(seen("2026-03-09T08:00:00Z", `9000,"observed_at":"2026-03-09T22:00:00.5+02:00"`),
		operatorapi.ActivityBatchResult{DailySteps: updated, CyclingActivities: updated}, stored)
	put(seen("2026-03-09T19:00:00Z", "4000"), operatorapi.ActivityBatchResult{DailySteps: outdated, CyclingActivities: outdated}, stored)
}

// One user who was just deleted does not stop a batch that asks to skip such rows: they are counted, and their users named. A preview says the same.
func TestSkipUnknownUsers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	gone, other := uuid.New(), uuid.New()
	body := f.batch(`{"daily_steps":[{"user_id":"` + gone.String() + `","date":"2026-03-09","steps":1},{USER,"date":"2026-03-09","steps":2}],
		"step_corrections":[{"user_id":"` + gone.String() + `","correction_id":"51c3f7de-62c5-4b5e-8a0e-5f7c1f1b9c02","date":"2026-03-09","delta":1,"note":""}],
		"removals":[{"user_id":"` + other.String() + `","source_id":"r0"},{USER,"source_id":"r0"}]}`)
	one := operatorapi.Written{Rows: 1, Inserted: 1}
	want := operatorapi.ActivityBatchResult{
		DailySteps: one, Removals: operatorapi.Removed{Rows: 1, Unchanged: 1},
		Skipped: &operatorapi.SkippedRows{Rows: 3, Users: 2, UserIds: []uuid.UUID{gone, other}},
	}
	for _, path := range []string{activityPath + "/preview", activityPath} {
		f.post(t, path, body).Check(t, 422, "invalid-content", path)
		f.post(t, path+"?unknown_users=refuse", body).Check(t, 422, "invalid-content", path)
		f.post(t, path+"?unknown_users=drop", body).Check(t, 400, "malformed-request", path)
		got := f.post(t, path+"?unknown_users=skip", body)
		got.Check(t, 200, "", path)
		if diff := cmp.Diff(want, edgetest.Decode[operatorapi.ActivityBatchResult](t, got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	if diff := cmp.Diff("steps 2026-03-09 2", f.rows(t)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}

	// Nobody is unknown, everybody is, and more than are named.
	got := f.post(t, activityPath+"?unknown_users=skip", f.batch(`{"removals":[{USER,"source_id":"r0"}]}`))
	if skipped := edgetest.Decode[operatorapi.ActivityBatchResult](t, got).Skipped; skipped == nil || skipped.Rows != 0 || skipped.UserIds == nil {
		t.Errorf("of a batch without unknown users: %+v", skipped)
	}
	var rows []string
	for range 150 {
		rows = append(rows, `{"user_id":"`+uuid.NewString()+`","date":"2026-03-09","steps":1}`)
	}
	got = f.post(t, activityPath+"?unknown_users=skip", `{"daily_steps":[`+strings.Join(append(rows, rows...), ",")+`]}`)
	if skipped := edgetest.Decode[operatorapi.ActivityBatchResult](t, got).Skipped; skipped == nil || skipped.Rows != 300 || skipped.Users != 150 || len(skipped.UserIds) != 100 {
		t.Errorf("of 300 rows of 150 unknown users: %+v", skipped)
	}
	// A bad row stays bad, also that of an unknown user.
	bad := `{"step_corrections":[{"user_id":"` + gone.String() + `","correction_id":"51c3f7de-62c5-4b5e-8a0e-5f7c1f1b9c02","date":"2026-03-09","delta":0,"note":""}]}`
	f.post(t, activityPath+"?unknown_users=skip", bad).WantErrors(t, "a bad row", map[string]string{
		"/step_corrections/0/delta": "must be a whole number from -2147483648 to 2147483647, and not 0"})
}

// A bad row is named with its field, and nothing of the batch is written.
func TestInvalidActivity(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const steps, ride = `{USER,"date":"2026-03-09","steps":1}`, `{USER,"source_id":"r","recorded_start_time":"2026-03-09T07:45:00","distance_meters":1}`
	const correction = `{USER,"correction_id":"51c3f7de-62c5-4b5e-8a0e-5f7c1f1b9c02","date":"2026-03-09","delta":1,"note":"n"}`
	const adjustment = `{USER,"adjustment_id":"51c3f7de-62c5-4b5e-8a0e-5f7c1f1b9c02","date":"2026-03-09","delta_meters":1,"note":"n"}`
	const removal = `{USER,"source_id":"gone"}`
	const clock = `must match ^(19|[2-9][0-9])[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?$`
	const exists, sourceID = "must be a clock time that exists", "must have 1 to 128 bytes of UTF-8 without NUL"
	const delta, note = "must be a whole number from -2147483648 to 2147483647, and not 0", "must have at most 1000 characters of UTF-8 without NUL"
	const instant = `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$`
	const noInstant = "must be an instant such as 2026-01-31T18:30:00Z (RFC 3339)"
	stranger := `"user_id":"` + uuid.NewString() + `"`
	for _, test := range []struct {
		part, good string
		from, to   string // what is put in place of what, in the third row
		field      string
		detail     string
	}{
		{"daily_steps", steps, `:1}`, `:-1}`, "steps", "must be at least 0"},
		{"daily_steps", steps, `:1}`, `:2147483648}`, "steps", "must be at most 2147483647"},
		{"daily_steps", steps, `:1}`, `:1.0}`, "steps", "must be a whole number in digits"},
		{"daily_steps", steps, `:1}`, `:1e3}`, "steps", "must be a whole number in digits"},
		{"daily_steps", steps, `:1}`, `:99999999999999999999}`, "steps", "must be a whole number in digits"},
		{"daily_steps", steps, `:1}`, `:"1"}`, "steps", "must be of type integer"},
		{"daily_steps", steps, `:1}`, `:null}`, "steps", "must be of type integer"},
		{"daily_steps", steps, `:1}`, `:true}`, "steps", "must be of type integer"},
		{"daily_steps", steps, `,"steps":1`, ``, "steps", "is required"},
		{"daily_steps", steps, `"steps":1`, `"steps":1,"stairs":1`, "stairs", "is not known"},
		{"daily_steps", steps, `"2026-03-09"`, `"2026-02-29"`, "date", "must be a date"},
		{"daily_steps", steps, `"2026-03-09"`, `"1899-12-31"`, "date", `must match ^(19|[2-9][0-9])[0-9]{2}-[0-9]{2}-[0-9]{2}$`},
		{"daily_steps", steps, `"2026-03-09"`, `"2026-03-09T00:00:00Z"`, "date", "must be a date"},
		{"daily_steps", steps, `"2026-03-09"`, `"2026-03-09\u0000"`, "date", "must be a date"},
		{"daily_steps", steps, `:1}`, `:1,"observed_at":"2026-03-09T12:00:00"}`, "observed_at", "must match " + instant},
		{"daily_steps", steps, `:1}`, `:1,"observed_at":"2026-02-29T12:00:00Z"}`, "observed_at", noInstant},
		{"cycling_activities", ride, `:1}`, `:1,"observed_at":"2026-02-29T12:00:00Z"}`, "observed_at", noInstant},
		{"daily_steps", steps, `USER`, stranger, "user_id", "is nobody here"},
		{"daily_steps", steps, `USER`, `"user_id":"x"`, "user_id", "must be a uuid"},
		{"daily_steps", steps, `USER,`, ``, "user_id", "is required"},
		{"daily_steps", steps, steps, `[]`, "", "must be of type object"},
		{"daily_steps", steps, steps, `null`, "", "must be of type object"},
		{"cycling_activities", ride, `"r"`, `""`, "source_id", "must not be empty"},
		{"cycling_activities", ride, `"r"`, `"\u0000"`, "source_id", sourceID},
		{"cycling_activities", ride, `"r"`, `"` + strings.Repeat("é", 65) + `"`, "source_id", sourceID},
		{"cycling_activities", ride, `"r"`, `"` + strings.Repeat("a", 129) + `"`, "source_id", "must have at most 128 characters"},
		{"cycling_activities", ride, `T07:45:00`, `T24:00:00`, "recorded_start_time", exists},
		{"cycling_activities", ride, `T07:45:00`, `T07:45:00Z`, "recorded_start_time", clock},
		{"cycling_activities", ride, `T07:45:00`, `T07:45:00.1234567`, "recorded_start_time", clock},
		{"cycling_activities", ride, `-03-09T`, `-02-30T`, "recorded_start_time", exists},
		{"cycling_activities", ride, `"distance`, `"recorded_end_time":"2026-03-09T08:61:00","distance`, "recorded_end_time", exists},
		{"cycling_activities", ride, `"distance`, `"recorded_end_time":"","distance`, "recorded_end_time", clock},
		{"cycling_activities", ride, `USER`, stranger, "user_id", "is nobody here"},
		{"step_corrections", correction, `:1,`, `:0,`, "delta", delta},
		{"step_corrections", correction, `"n"`, `"\u0000"`, "note", note},
		{"step_corrections", correction, `"n"`, `"` + strings.Repeat("a", 1001) + `"`, "note", "must have at most 1000 characters"},
		{"step_corrections", correction, `"correction_id":"5`, `"correction_id":"x`, "correction_id", "must be a uuid"},
		{"step_corrections", correction, `USER`, stranger, "user_id", "is nobody here"},
		{"cycling_adjustments", adjustment, `:1,`, `:0,`, "delta_meters", delta},
		{"cycling_adjustments", adjustment, `:1,`, `:-2147483649,`, "delta_meters", "must be at least -2147483648"},
		{"removals", removal, `"gone"`, `"r1"`, "source_id", "is written by the same batch"},
		{"removals", removal, `USER`, stranger, "user_id", "is nobody here"},
	} {
		t.Run(test.part+" "+test.to, func(t *testing.T) {
			t.Parallel()
			bad := strings.Replace(test.good, test.from, test.to, 1)
			list := fmt.Sprintf("%q:[%s,%s,%s]", test.part, test.good, test.good, bad)
			if test.part != "cycling_activities" {
				list += `,"cycling_activities":[` + strings.Replace(ride, `"r"`, `"r1"`, 1) + `]`
			}
			where := "/" + test.part + "/2"
			if test.field != "" {
				where += "/" + test.field
			}
			got := f.post(t, activityPath, f.batch("{"+list+"}"))
			if test.detail == "is nobody here" {
				test.detail = got.Errors[where]
				if !strings.Contains(test.detail, "user") {
					t.Errorf("detail is %q", test.detail)
				}
			}
			got.WantErrors(t, bad, map[string]string{where: test.detail})
			if strings.Contains(got.Body, stranger[11:30]) {
				t.Error("the answer repeats the value")
			}
		})
	}
	t.Cleanup(func() {
		if rows := f.rows(t); rows != "" {
			t.Errorf("rows of refused batches: %s", rows)
		}
	})
}

// sized is a batch of so many rows of steps and so many removals.
func sized(f *fixture, steps, removals int) string {
	days := make([]string, steps)
	for i := range days {
		days[i] = fmt.Sprintf(`{USER,"date":"%s","steps":%d}`, start.AddDate(0, 0, -i).Format("2006-01-02"), i)
	}
	rides := make([]string, removals)
	for i := range rides {
		rides[i] = fmt.Sprintf(`{USER,"source_id":"ride-%d"}`, i)
	}
	return f.batch(`{"daily_steps":[` + strings.Join(days, ",") + `],"removals":[` + strings.Join(rides, ",") + `]}`)
}

func TestSizeOfBatch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.post(t, activityPath, sized(f, 10_001, 0)).WantErrors(t, "10,001 rows", map[string]string{"/daily_steps": "must have at most 10000 rows"})
	f.post(t, activityPath, sized(f, 5_000, 5_001)).WantErrors(t, "10,001 rows in two parts", map[string]string{"": "must have at most 10000 rows in all"})
	if n := pgtest.Value[int](t, f.DB, "select count(*)::int from daily_steps"); n != 0 {
		t.Fatalf("%d rows were written", n)
	}
	for _, inserted := range []int64{10_000, 0} {
		got := f.post(t, activityPath, sized(f, 10_000, 0))
		got.Check(t, 200, "", "10,000 rows")
		want := operatorapi.Written{Rows: 10_000, Inserted: inserted, Unchanged: 10_000 - inserted}
		if result := edgetest.Decode[operatorapi.ActivityBatchResult](t, got).DailySteps; result != want {
			t.Errorf("result %+v, want %+v", result, want)
		}
	}
	// Of many errors a hundred are named, in the order of the rows.
	got := f.post(t, activityPath, strings.ReplaceAll(sized(f, 10_000, 0), `"date":"2`, `"date":"x`))
	got.Check(t, 422, "invalid-content", "10,000 bad rows")
	var named struct {
		Errors []struct{ Pointer string }
	}
	if err := json.Unmarshal([]byte(got.Body), &named); err != nil {
		t.Fatal(err)
	}
	for i, e := range named.Errors {
		if want := fmt.Sprintf("/daily_steps/%d/date", i); e.Pointer != want {
			t.Fatalf("error %d is of %s, want %s", i, e.Pointer, want)
		}
	}
	if len(named.Errors) != refusal.MaxNamed {
		t.Errorf("%d errors are named", len(named.Errors))
	}
}

// Equal batches at the same time: each row is inserted once, and all of them are answered.
func TestEqualBatchesAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const senders = 8
	answers := make([]answer, senders)
	var wait sync.WaitGroup
	for i := range senders {
		wait.Go(func() { answers[i] = f.post(t, activityPath, f.batch(everything)) })
	}
	wait.Wait()
	var inserted, unchanged int64
	for _, got := range answers {
		got.Check(t, 200, "", "batch")
		result := edgetest.Decode[operatorapi.ActivityBatchResult](t, got)
		for _, part := range []operatorapi.Written{result.DailySteps, result.CyclingActivities, result.StepCorrections, result.CyclingAdjustments} {
			inserted += part.Inserted
			unchanged += part.Unchanged
		}
	}
	if inserted != 5 || unchanged != 5*(senders-1) {
		t.Errorf("%d inserted, %d unchanged", inserted, unchanged)
	}
	if n := len(slices.Collect(strings.Lines(f.rows(t)))); n != 5 {
		t.Errorf("%d rows, want 5", n)
	}
}

// A user who is deleted while batches arrive: each batch is written before or refused after, and nothing is left.
func TestBatchesWhileUserIsDeleted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var wait sync.WaitGroup
	for range 6 {
		wait.Go(func() {
			if got := f.post(t, activityPath, f.batch(everything)); got.Status != 200 {
				got.Check(t, 422, "invalid-content", "batch")
			}
		})
	}
	wait.Go(func() {
		f.send(t, outgoing{Method: "DELETE", Target: "/operator/v1/users/" + f.User.ID.String()}).Check(t, 204, "", "delete")
	})
	wait.Wait()
	if rows := f.rows(t); rows != "" {
		t.Errorf("rows of nobody: %s", rows)
	}
}

// FuzzBody: whatever is sent, it is refused with an answer of the table, or the generated code can read it.
func FuzzBody(f *testing.F) {
	api, err := contract.NewAPI(document, failures...)
	if err != nil {
		f.Fatal(err)
	}
	handler := api.Handler(func(router chi.Router) {
		router.Post(activityPath, func(w http.ResponseWriter, r *http.Request) {
			var batch operatorapi.ActivityBatch
			err := json.NewDecoder(r.Body).Decode(&batch)
			if err == nil {
				readBatch(&batch)
			}
			if err != nil {
				api.Fail(w, r, err) // with 500, if the table has no answer for it
			}
		})
	})
	for _, seed := range []string{
		strings.ReplaceAll(everything, "USER", `"user_id":"3f0a4bd6-9d5c-4d8a-9a53-7d1f6f1f8a01"`), `{}`, `[]`,
		`{"removals":[{"user_id":1}]}`, `{"daily_steps":[{"steps":-0}]}`, "\x00", `{"a":"\ud800"}`, `{"~/":[1e9]}`, `{"a":1,"a":2}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		request := httptest.NewRequest(http.MethodPost, activityPath, strings.NewReader(body))
		request.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		if answer.Code == http.StatusInternalServerError {
			t.Errorf("accepted, but cannot be read: %s", answer.Body)
		}
	})
}

// A read of a user's activity is in the audit log. The log of requests has nothing of it.
func TestReadUserActivity(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner, _ := f.ConnectNew(t, "Ride Club")
	f.ConnectNew(t, "Walk Club")
	f.DB.Exec(t, "update clients set status = 'disabled' where name = 'Walk Club'")
	f.DB.Exec(t, "update users set registered_on = '2026-03-20' where user_id = $1", f.User.ID)
	f.DB.Exec(t, "update connections set history_from = '2026-03-10' where client_id = $1", partner.ID)
	user := "/operator/v1/users/" + f.User.ID.String()
	f.post(t, "/operator/v1/activity", fmt.Sprintf(`{"daily_steps":[{"user_id":%[1]q,"date":"2026-03-09","steps":54321}],
		"cycling_activities":[{"user_id":%[1]q,"source_id":"secret-ride","recorded_start_time":"2026-03-09T10:00:00.5","distance_meters":12345}]}`,
		f.User.ID)).Check(t, 200, "", "batch")
	f.send(t, outgoing{Method: "POST", Target: user + "/adjustments", Body: `{"dataset":"daily_steps","date":"2026-03-09","delta":-321,"note":"swing"}`,
		Header: http.Header{"Authorization": {"Bearer " + edgetest.AdaToken}, "Content-Type": {"application/json"}}}).Check(t, 200, "", "correct")
	read := f.send(t, outgoing{Method: "GET", Target: user + "/activity?from=2026-03-01&to=2026-03-31",
		Header: http.Header{"Authorization": {"Bearer " + edgetest.GraceToken}}})
	read.Check(t, 200, "", "read")
	var got operatorapi.UserActivity
	if err := json.Unmarshal([]byte(read.Body), &got); err != nil {
		t.Fatal(err)
	}
	figures := func(f operatorapi.DayFigures) [3]int64 { return [3]int64{*f.Recorded, f.Adjusted, *f.Seen} }
	if len(got.Days) != 1 || figures(got.Days[0].Steps) != [3]int64{54321, -321, 54000} || figures(got.Days[0].Cycling) != [3]int64{12345, 0, 12345} {
		t.Errorf("days: %+v", got.Days)
	}
	if len(got.Rides) != 1 || got.Rides[0].RecordedStartTime != "2026-03-09T10:00:00.500000" || got.Rides[0].RecordedEndTime != nil {
		t.Errorf("rides: %+v", got.Rides)
	}
	if len(got.Adjustments) != 1 || got.Adjustments[0].Actor == nil || *got.Adjustments[0].Actor != "ada" {
		t.Errorf("adjustments: %+v", got.Adjustments)
	}
	if len(got.Readers) != 1 || got.Readers[0].ClientId != partner.ID || got.Readers[0].StepsFrom.String() != "2026-03-20" ||
		got.Readers[0].CyclingFrom.String() != "2026-03-10" {
		t.Errorf("readers: %+v", got.Readers)
	}
	if n := pgtest.Value[int64](t, f.DB, "select count(*) from audit_log where actor = 'grace' and action = 'activity.viewed' and user_id = $1", f.User.ID); n != 1 {
		t.Errorf("%d entries of grace, who may only read", n)
	}
	for _, path := range []string{user + "/sign-ins", "/operator/v1/sign-ins?email=" + f.User.Email, "/operator/v1/sign-ins?email=nobody@example.com"} {
		f.send(t, outgoing{Method: "GET", Target: path})
	}
	if got := pgtest.Value[string](t, f.DB, "select string_agg(subject::text || (detail ->> 'by'), ' ' order by id) from audit_log where action = 'sign_ins.viewed'"); got != f.User.ID.String()+"operator_api "+uuid.Nil.String()+"operator_api" {
		t.Errorf("the log has readers of the sign-ins of %s", got)
	}
	for _, query := range []string{"", "?from=2026-03-01", "?from=2026-03-02&to=2026-03-01", "?from=2026-01-01&to=2027-01-02", "?from=2026-02-30&to=2026-03-01"} {
		f.send(t, outgoing{Method: "GET", Target: user + "/activity" + query}).Check(t, 400, "malformed-request", query)
	}
	f.send(t, outgoing{Method: "GET", Target: user + "/activity?from=2026-01-01&to=2027-01-01"}).Check(t, 200, "", "a year")
	for _, never := range []string{"54321", "54000", "12345,", "secret-ride", "swing", "2026-03-01&"} {
		if strings.Contains(f.Log.String(), never) {
			t.Errorf("the log has %s", never)
		}
	}
}
