package activity_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/intake"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// The foreign key is set aside where the role may do so, for that one statement, and checks each row elsewhere. A
// trigger tells: it is set aside with the foreign key.
func TestImportSetsForeignKeyAside(t *testing.T) {
	pgtest.NotOnCluster(t, "a shard has no trigger")
	t.Parallel()
	w := newImportWorld(t)
	w.Exec(t, `create function told() returns trigger language plpgsql as $$ begin raise 'row by row'; end $$`)
	w.Exec(t, `create trigger told after insert on daily_steps for each row execute function told()`)

	file := stepsHeader + names.Replace("U,2026-04-02,5\n")
	if result, err := w.ImportDailySteps(t.Context(), strings.NewReader(file), activity.ImportOptions{}); err != nil || result.Inserted != 1 {
		t.Errorf("as a role that may: %+v, %v", result, err)
	}
	if role := pgtest.Value[string](t, w.DB, "show session_replication_role"); role != "origin" {
		t.Errorf("session_replication_role is %s afterwards", role)
	}

	file = stepsHeader + names.Replace("U,2026-04-03,5\n")
	other := activity.New(w.poolOfPlainRole(t), nil, activity.Settings{})
	if _, err := other.ImportDailySteps(t.Context(), strings.NewReader(file), activity.ImportOptions{}); err == nil || !strings.Contains(err.Error(), "row by row") {
		t.Errorf("as a role that may not: %v", err)
	}
	w.Exec(t, "drop trigger told on daily_steps")
	if result, err := other.ImportDailySteps(t.Context(), strings.NewReader(file), activity.ImportOptions{}); err != nil || result.Inserted != 1 {
		t.Errorf("as a role that may not: %+v, %v", result, err)
	}
}

// A row of a user who is deleted meanwhile is not stored, whichever comes first.
func TestImportMeetsDeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	accounts := account.New(w.Pool, nil, nil, account.Settings{EndConnections: oauth.EndConnectionsOfUser})
	for range 20 {
		users := make([]uuid.UUID, 8)
		var file strings.Builder
		file.WriteString(stepsHeader)
		for i := range users {
			users[i] = w.newUser(t, "UTC")
			for d := 1; d <= 28; d++ {
				fmt.Fprintf(&file, "%s,2026-04-%02d,%d\n", users[i], d, d)
			}
		}
		var both sync.WaitGroup
		start := make(chan struct{})
		both.Go(func() {
			<-start
			_, err := w.ImportDailySteps(t.Context(), strings.NewReader(file.String()), activity.ImportOptions{})
			if err != nil && !strings.Contains(fmt.Sprint(refusal.FieldsOf(err)), refusal.ErrUserNotFound.Error()) {
				t.Error(err)
			}
		})
		both.Go(func() {
			<-start
			if _, err := accounts.DeleteUser(t.Context(), users[5]); err != nil {
				t.Error(err)
			}
		})
		close(start)
		both.Wait()
	}
	if n := pgtest.Value[int](t, w.DB, `select count(*)::int from daily_steps s
		where not exists (select 1 from users u where u.user_id = s.user_id)`); n != 0 {
		t.Errorf("%d rows of nobody", n)
	}
}

// A row that an import finds new, and another writer stores first, is merged.
func TestImportMeetsImport(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	for round := range 20 {
		var all sync.WaitGroup
		start := make(chan struct{})
		for steps := range 4 {
			all.Go(func() {
				<-start
				file := stepsHeader + names.Replace(fmt.Sprintf("U,2026-05-%02d,%d\nU,2026-06-%02d,%d\n", round+1, steps, round+1, steps))
				if _, err := w.ImportDailySteps(t.Context(), strings.NewReader(file), activity.ImportOptions{}); err != nil {
					t.Error(err)
				}
			})
		}
		close(start)
		all.Wait()
	}
	if got := len(w.stored(t, "daily_steps")); got != 41 {
		t.Errorf("%d rows, want 41", got)
	}
	if n := pgtest.Value[int](t, w.DB, `select count(*)::int from daily_steps may join daily_steps june
		on june.user_id = may.user_id and june.date = may.date + 31 where may.date between '2026-05-01' and '2026-05-31' and may.steps <> june.steps`); n != 0 {
		t.Errorf("%d files were taken in halves", n)
	}
}

// An import whose last rows another writer stores first begins again, with all its parts.
func TestImportOvertaken(t *testing.T) {
	pgtest.NotOnCluster(t, "the node does not know what its shards wait for")
	t.Parallel()
	const users, days, rows = 5, 2000, 10_000
	w := newWorld(t)
	w.Exec(t, `insert into users (user_id, email, timezone, registered_on, created_at)
		select gen_random_uuid(), n || '@user.example', 'UTC', '2020-01-01', now() from generate_series(1, $1) n`, users)
	ids := strings.Fields(pgtest.Value[string](t, w.DB, "select string_agg(user_id::text, ' ' order by user_id) from users"))
	first := day("2016-04-02")
	last := first.AddDate(0, 0, days-1)
	other, err := w.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Rollback(t.Context()) //nolint:errcheck // it was committed, or the test has failed
	if _, err := other.Exec(t.Context(), "insert into daily_steps values ($1, $2, 7)", ids[users-1], last); err != nil {
		t.Fatal(err)
	}
	var file strings.Builder
	file.WriteString(stepsHeader)
	for n := range rows {
		fmt.Fprintf(&file, "%s,%s,%d\n", ids[n/days], first.AddDate(0, 0, n%days).Format(time.DateOnly), n)
	}
	var stored []int64
	done := make(chan error, 1)
	go func() {
		result, err := w.ImportDailySteps(t.Context(), strings.NewReader(file.String()), activity.ImportOptions{Progress: func(p intake.Progress) {
			stored = append(stored, p.Stored)
		}})
		if want := (activity.Result{Rows: rows, Inserted: rows - 1, Updated: 1}); err == nil && result != want {
			err = fmt.Errorf("%+v, want %+v", result, want)
		}
		done <- err
	}()
	wait.Until(t, "the import waits", func() bool { return w.Waiting(t) > 0 })
	if err := other.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if slices.IsSorted(stored) {
		t.Errorf("it did not begin again: %v", stored)
	}
	if sum := pgtest.Value[int](t, w.DB, "select sum(steps)::int from daily_steps"); sum != rows*(rows-1)/2 {
		t.Errorf("%d steps are stored", sum)
	}
}

// Ctrl-C leaves the data untouched also when all rows are read and are being stored.
func TestImportInterruptedWhileStoring(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	ctx, interrupt := context.WithCancel(t.Context())
	file := strings.NewReader(stepsHeader + names.Replace("U,2026-04-01,7\nU,2026-04-02,5\n"))
	_, err := w.ImportDailySteps(ctx, file, activity.ImportOptions{Progress: func(p intake.Progress) {
		if p.Storing {
			interrupt()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	if got := strings.Join(w.stored(t, "daily_steps"), ";"); got != "2026-04-01 1000" {
		t.Errorf("stored: %s", got)
	}
}

// poolOfPlainRole works on the same database as a role without a superuser's rights.
func (w world) poolOfPlainRole(t *testing.T) *postgres.Pool {
	t.Helper()
	role := "plain_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	w.Define(t, fmt.Sprintf("create role %s login password 'plain'", role))
	w.Define(t, "grant select, insert, update, delete on all tables in schema public to "+role)
	address, err := url.Parse(w.URL)
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.UserPassword(role, "plain")
	pool, err := postgres.Open(t.Context(), address.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		pool.Close()
		w.Define(t, "drop owned by "+role)
		w.Define(t, "drop role "+role)
	})
	return pool
}

// An import inserts the new rows of a part before it changes the others, and a batch writes its rows in one order. If each waits for the
// other, both are taken in the end.
func TestImportMeetsBatch(t *testing.T) {
	pgtest.NotOnCluster(t, "the node does not know what its shards wait for")
	t.Parallel()
	w := newImportWorld(t)
	user := uuid.MustParse(userU)
	between, err := w.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer between.Rollback(t.Context()) //nolint:errcheck // it was rolled back, or the test has failed
	if _, err := between.Exec(t.Context(), "insert into daily_steps values ($1, '2026-04-02', 7)", user); err != nil {
		t.Fatal(err)
	}
	outcomes := make(chan error, 2)
	go func() {
		var batch activity.Batch
		for n, date := range []string{"2026-04-01", "2026-04-02", "2026-04-03"} {
			batch.DailySteps = append(batch.DailySteps, activity.StepsRecord{UserID: user, Date: day(date), Steps: n})
		}
		_, err := w.Put(t.Context(), batch)
		outcomes <- err
	}()
	w.waiting(t, 1)
	go func() {
		file := stepsHeader + names.Replace("U,2026-04-01,5\nU,2026-04-03,6\n")
		_, err := w.ImportDailySteps(t.Context(), strings.NewReader(file), activity.ImportOptions{})
		outcomes <- err
	}()
	w.waiting(t, 2)
	if err := between.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(<-outcomes, <-outcomes); err != nil {
		t.Error(err)
	}
	if got := strings.Join(w.stored(t, "daily_steps"), ";"); got != "2026-04-01 5;2026-04-02 1;2026-04-03 6" && got != "2026-04-01 0;2026-04-02 1;2026-04-03 2" {
		t.Errorf("stored: %s", got)
	}
}

// Batches that wait for the rows of an import do not keep those of other users waiting, and are written after it.
func TestImportLeavesOtherBatches(t *testing.T) {
	pgtest.NotOnCluster(t, "the node does not know what its shards wait for")
	t.Parallel()
	w := newImportWorld(t)
	other := w.newUser(t, "UTC")
	stored, ending, imported := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	finish := sync.OnceFunc(func() { close(ending) })
	defer finish()
	go func() {
		file := stepsHeader + names.Replace("U,2026-04-02,5\n")
		_, err := w.ImportDailySteps(t.Context(), strings.NewReader(file), activity.ImportOptions{Progress: func(p intake.Progress) {
			if p.Storing && p.Stored == 1 {
				close(stored)
				<-ending
			}
		}})
		imported <- err
	}()
	<-stored
	const batches = 8 // twice as many as are written at a time
	written := make(chan error, batches)
	for range batches {
		go func() {
			record := activity.StepsRecord{UserID: uuid.MustParse(userU), Date: day("2026-04-02"), Steps: 7}
			_, err := w.Put(t.Context(), activity.Batch{DailySteps: []activity.StepsRecord{record}})
			written <- err
		}()
	}
	w.waiting(t, 1)
	for began := time.Now(); time.Since(began) < 2*time.Second; { // soon all places would be taken
		w.putSteps(t, other, "2026-04-02", 9)
	}
	if ended := len(written); ended > 0 {
		t.Errorf("%d batches of the import's user ended first", ended)
	}
	finish()
	if err := <-imported; err != nil {
		t.Error(err)
	}
	for range batches {
		if err := <-written; err != nil {
			t.Error(err)
		}
	}
	if got := strings.Join(w.stored(t, "daily_steps"), ";"); got != "2026-04-01 1000;2026-04-02 7;2026-04-02 9" {
		t.Errorf("stored: %s", got)
	}
}

// A batch that begins again counts only what it has written then: the user of a row was deleted while the batch waited for another row.
func TestBatchBeginsAgain(t *testing.T) {
	pgtest.NotOnCluster(t, "a batch does not lock users there")
	t.Parallel()
	w := newImportWorld(t)
	user, gone := uuid.MustParse(userU), w.newUser(t, "UTC")
	importing, err := w.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer importing.Rollback(t.Context()) //nolint:errcheck // it was rolled back, or the test has failed
	if _, err := importing.Exec(t.Context(), "select from cycling_activities for update"); err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		result activity.BatchResult
		err    error
	}
	put := make(chan outcome, 1)
	go func() {
		result, err := w.Put(t.Context(), activity.Batch{
			DailySteps:        []activity.StepsRecord{{UserID: gone, Date: day("2026-04-02"), Steps: 5}},
			CyclingActivities: []activity.RideRecord{{UserID: user, SourceID: "r1", Start: clock("2026-04-01T08:00:00")}},
			SkipUnknown:       true,
		})
		put <- outcome{result, err}
	}()
	w.waiting(t, 1)
	accounts := account.New(w.Pool, nil, nil, account.Settings{EndConnections: oauth.EndConnectionsOfUser})
	if _, err := accounts.DeleteUser(t.Context(), gone); err != nil { // it waits until the batch leaves its turn to others
		t.Fatal(err)
	}
	if err := importing.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := activity.BatchResult{
		CyclingActivities: activity.Result{Rows: 1, Updated: 1},
		Skipped:           &activity.Skipped{Rows: 1, Users: 1, UserIDs: []uuid.UUID{gone}},
	}
	got := <-put
	if diff := cmp.Diff(want, got.result); diff != "" || got.err != nil {
		t.Errorf("%v (-want +got):\n%s", got.err, diff)
	}
}

// waiting waits until so many statements wait for locks.
func (w world) waiting(t *testing.T, statements int) {
	t.Helper()
	wait.Until(t, fmt.Sprint(statements, " statements wait"), func() bool { return w.Waiting(t) >= statements })
}
