package audit_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/admin/audit"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// history is a log of 5,000 entries, several of one time. The actors grace and ada never do what the other does, and the
// operator did nothing but create users, long ago.
type history struct {
	db                     *pgtest.DB
	log                    *audit.Log
	user, partner, another uuid.UUID
	middle                 time.Time
}

// newLog is the log, with bounds that suit its few entries.
func newLog(pool *postgres.Pool) *audit.Log {
	log := audit.New(pool, wait.Patient, 0)
	log.Bound(50, 1000, 500)
	return log
}

func newHistory(t *testing.T) history {
	t.Helper()
	db := pgtest.New(t)
	h := history{db: db, log: newLog(db.Pool), user: uuid.New(), partner: uuid.New(), another: uuid.New()}
	db.Exec(t, `insert into audit_log (subject, user_id, client_id, actor, action, at, detail)
		select coalesce(u, c), u, c, actor, action, now() - interval '1 day' + n / 3 * interval '1 second', jsonb_build_object('n', n)
		from (select n,
			case when n % 100 = 0 then $1::uuid when n % 5 > 0 then md5((n % 90)::text)::uuid end u,
			case when n <= 500 then null when n % 3 = 0 then $2 else $3::uuid end c,
			case when n <= 500 then 'operator' when n % 2 = 0 then 'ada' when n % 49 = 0 then 'system' when n % 7 = 0 then 'client' else 'grace' end actor,
			case when n <= 500 then 'user.created' when n % 2 = 0 then 'client.updated' else 'webhook.replayed' end action
			from generate_series(1, 5000) n) made
		where coalesce(u, c) is not null`, h.user, h.partner, h.another)
	db.Exec(t, "vacuum analyze audit_log")
	h.middle = pgtest.Value[time.Time](t, db, "select at from audit_log order by at offset 2000 limit 1")
	return h
}

// filters are one of each kind, and combinations, of which some find next to nothing.
func (h history) filters() map[string]audit.Filter {
	return map[string]audit.Filter{
		"all":                    {},
		"a time":                 {Since: h.middle.Add(-time.Minute), Until: h.middle.Add(time.Minute)},
		"since":                  {Since: h.middle},
		"until":                  {Until: h.middle},
		"a user":                 {UserID: h.user},
		"a client":               {ClientID: h.partner},
		"a busy actor":           {Actor: "ada"},
		"an actor of long ago":   {Actor: "operator"},
		"nobody":                 {Actor: "alan"},
		"a frequent actor":       {Actor: "client"},
		"an action":              {Action: "webhook.replayed"},
		"an action of long ago":  {Action: "user.created"},
		"no action":              {Action: "client"},
		"never together":         {Actor: "ada", Action: "webhook.replayed"},
		"rarely together":        {Actor: "system", ClientID: h.partner},
		"a connection":           {UserID: h.user, ClientID: h.another},
		"a connection's action":  {UserID: h.user, ClientID: h.another, Action: "client.updated"},
		"a user and an action":   {UserID: h.user, Action: "client.updated"},
		"a client and an action": {ClientID: h.another, Action: "webhook.replayed", Since: h.middle},
		"all at once": {UserID: h.user, ClientID: h.another, Actor: "ada", Action: "client.updated",
			Since: h.middle, Until: h.middle.Add(time.Hour)},
	}
}

// fits tells what a filter finds.
func fits(f audit.Filter, e audit.Event) bool {
	return (f.UserID == uuid.Nil || e.UserID == f.UserID) && (f.ClientID == uuid.Nil || e.ClientID == f.ClientID) &&
		(f.Actor == "" || e.Actor == f.Actor) && (f.Action == "" || e.Action == f.Action) &&
		(f.Since.IsZero() || !e.At.Before(f.Since)) && (f.Until.IsZero() || e.At.Before(f.Until))
}

// The list and the search find what fits, each in its order, whatever the size of their pages, and come to their end.
func TestSearch(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	all, err := h.log.List(t.Context(), audit.Filter{}, page.Key{}, 10_000)
	if err != nil || len(all.Events) != pgtest.Value[int](t, h.db, "select count(*) from audit_log") {
		t.Fatalf("all are %d events: %v", len(all.Events), err)
	}
	for name, filter := range h.filters() {
		var want []int64
		for _, e := range all.Events {
			if fits(filter, e) {
				want = append(want, e.ID)
			}
		}
		for _, look := range []func(context.Context, audit.Filter, page.Key, int) (audit.Page, error){h.log.List, h.log.Search} {
			var got []int64
			for at, pages := (page.Key{}), 0; ; pages++ {
				found, err := look(t.Context(), filter, at, 177)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range found.Events {
					got = append(got, e.ID)
				}
				if at = found.Next; at == (page.Key{}) {
					break
				}
				if pages > 1000 || len(found.Events) > 177 {
					t.Fatalf("%s: page %d has %d events", name, pages, len(found.Events))
				}
			}
			if !slices.Equal(want, got) {
				t.Errorf("%s: found %d events, want %d", name, len(got), len(want))
			}
			slices.Reverse(want) // for the search
		}
	}
}

// A page that is full says whether there is another one, where that costs nothing.
func TestSearchEnds(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	all := pgtest.Value[int](t, h.db, "select count(*) from audit_log where subject = $1", h.user)
	found, err := h.log.Search(t.Context(), audit.Filter{UserID: h.user}, page.Key{}, all)
	if err != nil || len(found.Events) != all || found.Next != (page.Key{}) {
		t.Errorf("%d events of %d, next %v, %v", len(found.Events), all, found.Next, err)
	}
	found, err = h.log.Search(t.Context(), audit.Filter{UserID: h.user}, page.Key{}, all-1)
	if err != nil || len(found.Events) != all-1 || found.Next != found.Events[all-2].Key() {
		t.Errorf("%d events of %d, next %v, %v", len(found.Events), all, found.Next, err)
	}
}

// Two busy kinds that never come together: a page looks at a bounded part of the log, says how far it came, and goes on.
func TestSearchIsBounded(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	filter := audit.Filter{Actor: "ada", Action: "webhook.replayed"}
	found, err := h.log.Search(t.Context(), filter, page.Key{}, 100)
	if err != nil || len(found.Events) != 0 {
		t.Fatalf("%d events, %v", len(found.Events), err)
	}
	looked := func(how string) int {
		return pgtest.Value[int](t, h.db, "select count(*) from audit_log where actor = 'ada' and at "+how+" $1", found.Next.At)
	}
	if n := looked(">="); found.Next == (page.Key{}) || n == 0 || n > 1_010 {
		t.Errorf("a page looked at %d entries, and came to %v", n, found.Next)
	}
	found, err = h.log.List(t.Context(), filter, page.Key{}, 100)
	if n := looked("<="); err != nil || len(found.Events) != 0 || found.Next == (page.Key{}) || n == 0 || n > 1_010 {
		t.Errorf("the list: %d events of %d, and came to %v, %v", len(found.Events), n, found.Next, err)
	}
}

// Each search reads one index in its order, that of the rarest kind that it asks for, and no more of it than a slice a statement:
// also where statistics are of another time.
func TestSearchUsesIndexes(t *testing.T) {
	pgtest.NotOnCluster(t, "the plan is that of a shard")
	t.Parallel()
	h := newHistory(t)
	queries := new(pgtest.Statements)
	pool, err := postgres.Open(t.Context(), h.db.URL, postgres.WithTracer(queries))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	log := newLog(pool)
	for _, statistics := range []string{"of now", "of nothing"} {
		if statistics == "of nothing" {
			h.db.Exec(t, "delete from pg_statistic where starelid = 'audit_log'::regclass")
			h.db.Exec(t, "update pg_class set reltuples = 10, relpages = 1 where oid = 'audit_log'::regclass")
		}
		for name, filter := range h.filters() {
			index := "audit_log_at"
			switch {
			case filter.UserID != uuid.Nil && filter.ClientID != uuid.Nil:
				index = "audit_log_connection"
			case filter.UserID != uuid.Nil:
				index = "audit_log_pkey"
			case filter.ClientID != uuid.Nil:
				index = "audit_log_client"
			case filter.Actor != "" && filter.Actor != "client":
				index = "audit_log_rare_actor"
			case filter.Action != "" && filter.Action != "user.created":
				index = "audit_log_rare_action"
			}
			*queries = nil
			if _, err := log.Search(t.Context(), filter, page.Key{}, 50); err != nil {
				t.Fatal(err)
			}
			if _, err := log.List(t.Context(), filter, page.Key{}, 50); err != nil {
				t.Fatal(err)
			}
			queries.Explain(t, pool, func(sql string, plan []pgtest.PlanNode) {
				for _, n := range plan {
					if n.Read() == 0 || !strings.HasSuffix(n.Type, "Scan") || n.Type == "Subquery Scan" || n.Type == "CTE Scan" ||
						!strings.Contains(sql, "audit_log") {
						continue
					}
					if n.Read() > 51 || n.Type+" "+n.Index != "Index Scan "+index {
						t.Errorf("%s, statistics %s: %.0f rows by %s %s, want %s", name, statistics, n.Read(), n.Type, n.Index, index)
					}
				}
			})
		}
	}
}

// A search reads another index for actors and actions that these indexes leave out.
func TestIndexesLeaveOutWhatIsFrequent(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for index, names := range audit.Frequent {
		condition := pgtest.Value[string](t, db, "select pg_get_expr(indpred, indrelid) from pg_index where indexrelid = $1::text::regclass", index)
		var left []string
		for _, quoted := range regexp.MustCompile(`'[^']+'`).FindAllString(condition, -1) {
			left = append(left, strings.Trim(quoted, "'"))
		}
		if diff := cmp.Diff(names, left); diff != "" {
			t.Errorf("%s (-want +got):\n%s", index, diff)
		}
	}
}

func atOnce(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, wait.Limit)
}

func TestCSV(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	for name, filter := range h.filters() {
		var text bytes.Buffer
		statements := 0
		if err := h.log.WriteCSV(t.Context(), &text, filter, func(ctx context.Context) (context.Context, context.CancelFunc) {
			statements++
			return atOnce(ctx)
		}); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(&text).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"at", "actor", "action", "user_id", "client_id", "connection_version", "detail"}, rows[0]); diff != "" {
			t.Errorf("%s: columns (-want +got):\n%s", name, diff)
		}
		want := 0
		for before := (page.Key{}); ; {
			found, err := h.log.Search(t.Context(), filter, before, 1000)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range found.Events {
				want++
				if want >= len(rows) {
					continue
				}
				row := []string{e.At.UTC().Format(time.RFC3339Nano), e.Actor, e.Action, "", "", "", string(e.Detail)}
				if e.UserID != uuid.Nil {
					row[3] = e.UserID.String()
				}
				if e.ClientID != uuid.Nil {
					row[4] = e.ClientID.String()
				}
				if diff := cmp.Diff(row, rows[want]); diff != "" {
					t.Fatalf("%s: row %d (-want +got):\n%s", name, want, diff)
				}
			}
			if before = found.Next; before == (page.Key{}) {
				break
			}
		}
		if want != len(rows)-1 {
			t.Errorf("%s: %d rows, want %d", name, len(rows)-1, want)
		}
		if name == "all" && statements < want/500 {
			t.Errorf("%d rows came with %d statements", want, statements)
		}
	}
}

// Formulas of a spreadsheet become text.
func TestCSVIsDefused(t *testing.T) {
	t.Parallel()
	for cell, want := range map[string]string{
		"": "", "ada": "ada", "7": "7", `{"a":"=1"}`: `{"a":"=1"}`,
		"=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@SUM(A1)": "'@SUM(A1)", "\t=1": "'\t=1", "\r=1": "'\r=1",
	} {
		if got := audit.Defuse(cell); got != want {
			t.Errorf("%q is written as %q, want %q", cell, got, want)
		}
	}
	// A version is a number, and stays one.
	if got := fmt.Sprint(audit.Cells(audit.Event{ConnectionVersion: 3, Actor: "ada"})[5]); got != "3" {
		t.Errorf("the version is %q", got)
	}
}
