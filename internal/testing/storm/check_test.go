//go:build faults

package storm

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/testing/history"
)

// calm heals everything, and waits until everything is quiet and well.
func (s *storm) calm() {
	s.Helper()
	began, told := time.Now(), false
	for _, way := range s.links {
		if err := way.heal(); err != nil {
			s.Fatal(err)
		}
	}
	s.until("PostgreSQL answers", func(ctx context.Context) (bool, error) { return true, s.database.ready(ctx) })
	s.until("every server is ready", func(ctx context.Context) (bool, error) {
		for _, one := range s.servers {
			request, err := http.NewRequest(http.MethodGet, "http://"+one.back.address+"/readyz", nil)
			if err != nil {
				return false, err
			}
			answer, err := http.DefaultClient.Do(request)
			if err != nil {
				return false, nil //nolint:nilerr // not yet
			}
			reason, _ := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				if ctx.Err() != nil {
					s.Logf("/readyz: %s", reason)
				}
				return false, nil
			}
		}
		return true, nil
	})
	// Retries that are due in minutes run now.
	s.until("every event is delivered", func(ctx context.Context) (bool, error) {
		if err := s.database.exec(ctx, "update webhook_events set due_at = connect_now() where state = 'pending' and due_at > connect_now() + interval '10 seconds'"); err != nil {
			return false, err
		}
		if time.Since(began) > 30*time.Second && !told { // a lease and an attempt are over by then
			told = true
			text, err := query[string](ctx, s.database, `select format('changes %s, not queued %s, queue %s', (select count(*) from webhook_changes),
				(select count(*) from webhook_events where not queued), coalesce((select string_agg(format('attempts %s, leased for %s, due in %s',
				attempts, leased_until - connect_now(), due_at - connect_now()), '; ') from webhook_events where state = 'pending' and queued), 'empty'))`)
			if err != nil {
				return false, err
			}
			sessions, err := query[string](ctx, s.database, `select coalesce(string_agg(format('%s for %s, waits for %s %s, blocked by %s: %s', state, now() - state_change,
				wait_event_type, wait_event, pg_blocking_pids(pid), left(regexp_replace(query, '\s+', ' ', 'g'), 120)), E'\n'), 'none') from pg_stat_activity
				where backend_type = 'client backend' and pid <> pg_backend_pid() and state <> 'idle'`)
			if err != nil {
				return false, err
			}
			s.sum.fact("events are slow: %s; sessions: %s", text, sessions)
		}
		left, err := query[int](ctx, s.database, "select (select count(*) from webhook_changes) + (select count(*) from webhook_queue) + (select count(*) from webhook_events where state <> 'delivered')")
		return left == 0, err
	})
	if s.paused != nil {
		s.until("every receipt is sent", func(ctx context.Context) (bool, error) {
			if err := s.database.exec(ctx, "update notices set due_at = now() where due_at > now()"); err != nil {
				return false, err
			}
			left, err := query[int](ctx, s.database, "select count(*) from notices")
			return left == 0, err
		})
	}
	s.until("nothing is under way", func(ctx context.Context) (bool, error) {
		left, err := query[int](ctx, s.database, `select (select count(*) from pg_prepared_xacts) + (select count(*) from pg_stat_activity
			where backend_type = 'client backend' and datname = current_database() and pid <> pg_backend_pid() and (state like 'idle in transaction%' or state = 'active'))`)
		return left == 0, err
	})
	s.until("no lease is left", s.noLeases)
	s.sum.fact("quiet and well %s after the last fault", time.Since(began).Round(time.Second))
}

func (s *storm) until(what string, happened func(context.Context) (bool, error)) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 3*time.Minute)
	defer cancel()
	began := time.Now()
	defer func() {
		if took := time.Since(began); took > 5*time.Second {
			s.sum.fact("%s: only after %s", what, took.Round(time.Second))
		}
	}()
	for {
		ok, err := happened(ctx)
		switch {
		case ctx.Err() != nil:
			for n, one := range s.servers {
				s.Logf("server %d wrote at last:\n%s", n, one.tail(5))
			}
			s.Fatalf("not within %s: %s (%v)", time.Since(began).Round(time.Second), what, err)
		case err != nil:
			s.Fatalf("%s: %v", what, err)
		case ok:
			return
		}
		await(ctx, 100*time.Millisecond)
	}
}

// check holds what was noted against what is there.
func (s *storm) check() {
	s.Helper()
	ctx := s.Context()
	conn, err := s.database.connect(ctx)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	s.checkSteps()
	s.checkEvents(ctx, conn)
	s.checkHistories(ctx, conn)
	s.checkDeliveries(ctx, conn)
	s.checkAdmissions()
	s.checkAudit(ctx, conn)
	s.checkUsers(ctx, conn)
	s.checkCodes()
	s.checkSecrets()
	if s.paused != nil {
		s.checkPauses(ctx, conn)
		s.checkPortal()
		s.checkChanges()
		s.checkReceipts()
		s.checkDays(ctx, conn)
	}
	if s.database.cluster == "" { // whose nodes have locks of their own
		s.checkLeases(ctx)
	}
	lines := 0
	for _, one := range s.servers {
		lines += one.lines
	}
	s.sum.fact("%d lines of logs without a credential", lines)
}

// checkEvents holds the receiver's events against the log of events: all of them arrived, and no others.
func (s *storm) checkEvents(ctx context.Context, conn *pgx.Conn) {
	rows, err := conn.Query(ctx, "select event_id::text from webhook_events")
	if err != nil {
		s.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		s.Fatal(err)
	}
	s.receiver.mu.Lock()
	defer s.receiver.mu.Unlock()
	missing, refused, again := 0, 0, 0
	for _, id := range ids {
		if got := s.receiver.received[id]; got == nil {
			missing++
		} else if !got.accepted {
			refused++
		}
	}
	for _, got := range s.receiver.received {
		again += got.times - 1
		if got.kind == "activity.updated" && slices.Contains(s.ghosts, s.ownerOf(got.grant)) {
			s.Error("a partner was told of activity that was refused")
		}
	}
	if missing > 0 || refused > 0 || len(ids) != len(s.receiver.received) && s.activityKept(ids) {
		s.Errorf("%d events, %d of them did not arrive, %d are taken for delivered and were refused, %d different ones arrived",
			len(ids), missing, refused, len(s.receiver.received))
	}
	s.sum.fact("%d events delivered, %d deliveries repeated", len(s.receiver.received), again)
}

// activityKept reports whether an event arrived that is not in the log. Events about a deleted user's activity go with the user.
func (s *storm) activityKept(ids []string) bool {
	for id, got := range s.receiver.received {
		if got.kind == "connection.revoked" && !slices.Contains(ids, id) {
			return true
		}
	}
	return false
}

func (s *storm) ownerOf(grant string) uuid.UUID {
	for _, c := range s.book.connections {
		if c.grant == grant {
			return c.user.id
		}
	}
	return uuid.Nil
}

// checkHistories looks for an order of each connection's acts, of which the last is what there is now.
func (s *storm) checkHistories(ctx context.Context, conn *pgx.Conn) {
	acts, unknown, undecided := 0, 0, 0
	type checked struct {
		c       *connection
		ops     []history.Op
		verdict history.Verdict
	}
	var all []*checked
	for _, c := range s.book.connections {
		ops := slices.Clone(c.ops)
		if c.partner == s.flighty {
			ops = append(ops, s.book.toggles...)
		}
		seen, err := s.look(ctx, conn, c)
		if err != nil {
			s.Fatal(err)
		}
		at := s.now()
		ops = append(ops, history.Op{Act: history.Look, Answer: history.Done, Seen: seen, Call: at, Return: at + 1})
		for _, op := range ops {
			acts++
			if op.Answer == history.Unknown {
				unknown++
			}
		}
		all = append(all, &checked{c: c, ops: ops})
	}
	began := time.Now()
	over := began.Add(time.Hour)
	if end, limited := ctx.Deadline(); limited {
		over = began.Add(end.Sub(began) / 2) // other checks follow
	}
	var workers sync.WaitGroup
	next := make(chan *checked)
	for range 2 {
		workers.Go(func() {
			for one := range next {
				one.verdict = history.Check(one.ops, max(min(time.Minute, time.Until(over)), time.Millisecond))
			}
		})
	}
	for _, one := range all {
		next <- one
	}
	close(next)
	workers.Wait()
	drawn := 0
	for n, one := range all {
		switch {
		case !one.verdict.Decided:
			undecided++
		case !one.verdict.Legal:
			s.Errorf("no order explains the history of a connection (%d acts)", len(one.ops))
			if drawn++; drawn > 3 {
				continue
			}
			picture := filepath.Join("..", "..", "..", "bin", fmt.Sprintf("storm-%d-%d.html", s.seed, n))
			if err := os.MkdirAll(filepath.Dir(picture), 0o755); err != nil {
				s.Error(err)
			}
			if err := one.verdict.Draw(picture); err != nil {
				s.Error(err)
			}
			s.Logf("it is drawn in bin/%s:\n%s", filepath.Base(picture), history.Text(one.ops))
		}
	}
	s.sum.fact("%d histories of %d acts, %d of them of unknown outcome, checked in %s; %d not decided in time",
		len(all), acts, unknown, time.Since(began).Round(time.Second), undecided)
}

// look finds the connection and what its partner was told.
func (s *storm) look(ctx context.Context, conn *pgx.Conn, c *connection) (history.Row, error) {
	row := history.Row{State: "none"}
	var grants []string
	err := conn.QueryRow(ctx, `select coalesce(array_agg(distinct grant_id::text), '{}') from (
			select grant_id from webhook_events where user_id = $1 and client_id = $2
			union select grant_id from connections where user_id = $1 and client_id = $2) g`, c.user.id, c.partner.id).Scan(&grants)
	if err != nil {
		return row, err
	}
	var here bool
	if err := conn.QueryRow(ctx, "select exists (select from users where user_id = $1)", c.user.id).Scan(&here); err != nil {
		return row, err
	}
	err = conn.QueryRow(ctx, "select state, version, refresh_generation from connections where user_id = $1 and client_id = $2 and version > 0",
		c.user.id, c.partner.id).Scan(&row.State, &row.Version, &row.Generation)
	if err != nil && err != pgx.ErrNoRows {
		return row, err
	}
	if !here {
		row.State = "deleted"
	}
	var events []string
	s.receiver.mu.Lock()
	defer s.receiver.mu.Unlock()
	for _, got := range s.receiver.received {
		if got.kind == "connection.revoked" && slices.Contains(append(grants, c.grant), got.grant) {
			events = append(events, got.event)
		}
	}
	row.Told = history.Events(events)
	row.Audited, err = auditedOf(ctx, conn, c)
	return row, err
}

// checkDeliveries: each is whole or not there, and each that was acknowledged is there, and was told to the partners of its users.
func (s *storm) checkDeliveries(ctx context.Context, conn *pgx.Conn) {
	stored := map[string]int{}
	rows, err := conn.Query(ctx, "select regexp_replace(source_id, '-[0-9]+$', ''), count(*)::int from cycling_activities group by 1")
	if err != nil {
		s.Fatal(err)
	}
	var name string
	var count int
	if _, err := pgx.ForEachRow(rows, []any{&name, &count}, func() error { stored[name] = count; return nil }); err != nil {
		s.Fatal(err)
	}
	acked, refused, whole, untold := 0, 0, 0, 0
	s.receiver.mu.Lock()
	defer s.receiver.mu.Unlock()
	for _, d := range s.book.deliveries {
		n := stored[d.name]
		switch {
		case d.never:
			refused++
			if n != 0 {
				s.Errorf("%d rows are there of a batch that was refused", n)
			}
			continue
		case n != 0 && n != d.rows:
			s.Errorf("%d of the %d rows of an import are there", n, d.rows)
		case n == 0 && d.acked:
			s.Error("an import that was acknowledged is not there")
		}
		if n == 0 {
			continue
		}
		whole++
		if d.acked {
			acked++
		}
		for _, f := range s.feeds {
			if !s.told(f.grant, d) {
				untold++
			}
		}
	}
	if untold > 0 {
		s.Errorf("of %d changes of activity nobody was told", untold)
	}
	s.sum.fact("%d imports and batches: %d acknowledged, %d there without that, %d refused", len(s.book.deliveries), acked, whole-acked, refused)
}

// told reports whether an event covers the delivery that arrived after it began.
func (s *storm) told(grant string, d *delivery) bool {
	day := d.day.Format(time.DateOnly)
	for _, got := range s.receiver.received {
		if got.kind == "activity.updated" && got.grant == grant && strings.Compare(got.from, day) <= 0 && strings.Compare(got.to, day) >= 0 && got.last >= d.began {
			return true
		}
	}
	return false
}
