package audit_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/admin/audit"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/testing/pgtest"
)

// The ends of a client's connections are found by their reasons, in both orders and in a file, among a hundred times as many other entries; and
// each reason is told apart.
func TestEnds(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	log := newLog(db.Pool)
	partner, user := uuid.New(), uuid.New()
	kinds := map[string][3]string{ // action, actor, detail
		"user_disconnected":      {"connection.disconnected", "user", "{}"},
		"client_disconnected":    {"connection.disconnected", "client", "{}"},
		"operator_disconnected":  {"connection.disconnected", "ada", "{}"},
		"account_deleted":        {"connection.disconnected", "operator", `{"reason": "account_deleted"}`},
		"client_offboarded":      {"connection.disconnected", "operator", `{"reason": "client_offboarded"}`},
		"refresh_token_revoked":  {"connection.revoked", "client", `{"reason": "refresh_token_revoked"}`},
		"refresh_token_replayed": {"connection.revoked", "client", `{"reason": "refresh_token_replayed"}`},
		"operator_revoked":       {"connection.revoked", "operator", `{"reason": "refresh_token_revoked", "all": true}`},
		"lapsed":                 {"connection.lapsed", "system", `{"lapsed_at": "2026-03-10T12:00:00+00:00"}`},
	}
	if known := slices.Sorted(slices.Values(audit.Ends)); !slices.Equal(known, slices.Sorted(maps.Keys(kinds))) {
		t.Fatalf("the ends are %v", known)
	}
	for end, kind := range kinds {
		// One of the user, one of somebody else, and one that was replayed after a restore.
		db.Exec(t, `insert into audit_log (subject, user_id, client_id, actor, action, detail, connection_version, at)
			select u, u, $1, case when n = 3 and $3::text in ('user', 'client') then 'operator' else $3 end, $4,
				$5::jsonb || case when n = 3 then jsonb_build_object('by', $3::text, 'end', $6::text) else jsonb_build_object('end', $6::text) end, 2,
				now() - interval '1 hour'
			from (select n, case when n = 1 then $2::uuid else gen_random_uuid() end as u from generate_series(1, 3) n) made`,
			partner, user, kind[1], kind[0], kind[2], end)
	}
	db.Exec(t, `insert into audit_log (subject, user_id, client_id, actor, action, at)
		select $2, $2, case when n % 2 = 0 then $1::uuid else gen_random_uuid() end, 'client', case when n % 3 = 0 then 'access_token.revoked' else 'connection.authorized' end,
			now() - n * interval '1 second' from generate_series(1, 5400) n`, partner, user)
	db.Exec(t, "vacuum analyze audit_log")

	find := func(filter audit.Filter) (ends []string) {
		t.Helper()
		for i, look := range []func(context.Context, audit.Filter, page.Key, int) (audit.Page, error){log.List, log.Search} {
			var all []string
			for after, pages := (page.Key{}), 0; pages == 0 || after != (page.Key{}); pages++ {
				found, err := look(t.Context(), filter, after, 4)
				if err != nil || pages > 100 {
					t.Fatalf("%d pages: %v", pages, err)
				}
				for _, e := range found.Events {
					if e.End == "" || string(e.Detail) == "" || e.ClientID != partner {
						t.Errorf("%+v is no end of the client", e)
					}
					all = append(all, e.End)
				}
				after = found.Next
			}
			slices.Sort(all)
			if i > 0 && !slices.Equal(all, ends) {
				t.Errorf("%+v: oldest first %v, newest first %v", filter, ends, all)
			}
			ends = all
		}
		n := 0
		if err := log.Each(t.Context(), filter, atOnce, func(_ context.Context, part []audit.Event) error { n += len(part); return nil }); err != nil || n != len(ends) {
			t.Errorf("%+v: %d in parts, want %d: %v", filter, n, len(ends), err)
		}
		return ends
	}
	all := find(audit.Filter{ClientID: partner, Ends: true})
	if len(all) != 3*len(kinds) || len(slices.Compact(slices.Clone(all))) != len(kinds) {
		t.Errorf("all ends: %v", all)
	}
	for _, end := range audit.Ends {
		if got := find(audit.Filter{ClientID: partner, Ends: true, End: end}); !slices.Equal(got, []string{end, end, end}) {
			t.Errorf("the ends for %s: %v", end, got)
		}
		if got := find(audit.Filter{ClientID: partner, UserID: user, Ends: true, End: end}); !slices.Equal(got, []string{end}) {
			t.Errorf("the user's ends for %s: %v", end, got)
		}
	}
	if got := find(audit.Filter{ClientID: uuid.New(), Ends: true}); len(got) != 0 {
		t.Errorf("of another client: %v", got)
	}
}

// A lapse is entered some time after it, up to a week where no server ran. Times are those of the ends, and so each end is in the list of its
// day, as it is in the figures of that day, whatever the size of the pages.
func TestEndsOfADay(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	log := newLog(db.Pool)
	partner := uuid.New()
	day := time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC)
	want, random := map[string]int{}, rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same in each run
	for range 100 {
		entered := day.Add(time.Duration(random.IntN(12*24*60)) * time.Minute)
		ended, action, detail := entered, "connection.disconnected", "{}"
		if random.IntN(2) == 0 {
			ended = entered.Add(-time.Duration(random.IntN([]int{60, 7 * 24 * 60}[random.IntN(2)])) * time.Minute)
			action, detail = "connection.lapsed", `{"lapsed_at": "`+ended.Format(time.RFC3339)+`"}`
		}
		db.Exec(t, `insert into audit_log (subject, user_id, client_id, actor, action, detail, connection_version, at)
			select u, u, $1, 'system', $2, $3::jsonb, 2, $4 from gen_random_uuid() u`, partner, action, detail, entered)
		want[ended.Format(time.DateOnly)+action]++
	}
	got := map[string]int{}
	for n := -7; n < 12; n++ {
		filter := audit.Filter{ClientID: partner, Ends: true, Since: day.AddDate(0, 0, n), Until: day.AddDate(0, 0, n+1)}
		each := 0
		if err := log.Each(t.Context(), filter, atOnce, func(_ context.Context, part []audit.Event) error { each += len(part); return nil }); err != nil {
			t.Fatal(err)
		}
		for after, pages := (page.Key{}), 0; pages == 0 || after != (page.Key{}); pages++ {
			found, err := log.Search(t.Context(), filter, after, 1+random.IntN(4))
			if err != nil || pages > 100 {
				t.Fatalf("%d pages: %v", pages, err)
			}
			for _, e := range found.Events {
				each--
				if got[filter.Since.Format(time.DateOnly)+e.Action]++; e.EndedAt().UTC().Format(time.DateOnly) != filter.Since.Format(time.DateOnly) {
					t.Errorf("an end at %v among those of %v", e.EndedAt(), filter.Since)
				}
			}
			after = found.Next
		}
		if each != 0 {
			t.Errorf("%v: the file has %d more than the list", filter.Since, each)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ends by day (-want +got):\n%s", diff)
	}
}
