package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/pgtest"
)

// requests is a registry with a client, its engineer kim and the operator ada.
type requests struct {
	*testing.T
	*client.Registry
	db       *pgtest.DB
	one      client.Client
	kim, ada context.Context
}

func newRequests(t *testing.T) requests {
	t.Parallel()
	db := pgtest.New(t)
	registry := client.NewRegistry(db.Pool, oauth.EndConnectionsOfClient)
	one, _ := create(t, registry, rideClub)
	return requests{t, registry, db, one, work.WithActor(t.Context(), "partner:kim"), work.WithActor(t.Context(), "ada")}
}

// asks has kim ask for a change, and returns the request.
func (r requests) asks(change func(*client.Registration)) client.ChangeRequest {
	r.Helper()
	if _, err := r.RequestChange(r.kim, r.one.ID, change); err != nil {
		r.Fatal(err)
	}
	return r.last()
}

func (r requests) last() client.ChangeRequest {
	r.Helper()
	found, err := r.ChangeRequest(r.Context(), r.one.ID)
	if err != nil {
		r.Fatal(err)
	}
	return found
}

func (r requests) is(want client.Registration) {
	r.Helper()
	now, err := r.Get(r.Context(), r.one.ID)
	if diff := cmp.Diff(want, now.Registration); err != nil || diff != "" {
		r.Errorf("%v, the registration (-want +got):\n%s", err, diff)
	}
}

func burst(n int) func(*client.Registration) {
	return func(r *client.Registration) { r.Policy.Burst = n }
}

// A request changes nothing until it is approved, and then only what it asks for. The log has both names.
func TestApprovedChange(t *testing.T) {
	r := newRequests(t)
	logo := brand.Logo{Name: "logo-1.png", Content: []byte("picture")}
	asked := r.asks(func(now *client.Registration) {
		now.CallbackURL, now.HomepageURL, now.Policy.Burst, now.Logo = "https://ride.example/new", "", 50, logo
	})
	r.is(rideClub)
	if asked.State != client.ChangeOpen || asked.RequestedBy != "partner:kim" {
		t.Errorf("asked: %+v", asked)
	}
	if _, err := r.Update(r.ada, r.one.ID, func(now *client.Registration) { now.Name, now.Policy.RequestsPerMinute = "Ride", 90 }); err != nil {
		t.Fatal(err)
	}
	now, wants := rideClub, []client.FieldChange{
		{"callback", rideClub.CallbackURL, "https://ride.example/new"}, {"homepage", "https://ride.example/", ""}, {"logo", "", "logo-1.png"}, {"burst", "5", "50"},
	}
	now.Name, now.Policy.RequestsPerMinute = "Ride", 90
	wanted, err := asked.Wanted(now)
	if diff := cmp.Diff(wants, client.Compare(now, wanted)); err != nil || diff != "" {
		t.Errorf("%v, compared (-want +got):\n%s", err, diff)
	}
	if n, err := r.CountChanges(t.Context()); err != nil || n != 1 {
		t.Errorf("%d are open, %v", n, err)
	}
	if open, err := r.OpenChanges(t.Context(), page.Key{}, 10); err != nil || len(open) != 1 || open[0].ID != asked.ID || open[0].Name != "Ride" {
		t.Errorf("the list: %+v, %v", open, err)
	} else if rest, err := r.OpenChanges(t.Context(), open[0].Key(), 10); err != nil || len(rest) > 0 {
		t.Errorf("behind it: %+v, %v", rest, err)
	}
	answered, err := r.ApproveChange(r.ada, r.one.ID, asked.ID)
	if err != nil || answered.State != client.ChangeApproved || answered.AnsweredBy != "ada" || answered.AnsweredAt.IsZero() {
		t.Fatalf("approved: %+v, %v", answered, err)
	}
	wanted.Logo.Content = nil
	r.is(wanted)
	if kept, err := r.Logo(t.Context(), r.one.ID, "logo-1.png"); err != nil || string(kept.Content) != "picture" {
		t.Errorf("the logo is %q, %v", kept.Content, err)
	}
	if _, err := r.ApproveChange(r.ada, r.one.ID, asked.ID); !errors.Is(err, client.ErrNoChangeRequest) {
		t.Errorf("approved twice: %v", err)
	}
	if n, err := r.CountChanges(t.Context()); err != nil || n != 0 {
		t.Errorf("%d are open, %v", n, err)
	}
	if got := pgtest.Value[string](t, r.db, `select string_agg(concat_ws(' ', actor, action, detail ->> 'requested_by'), ', ' order by id)
		from audit_log where action <> 'client.created' and id > (select min(id) from audit_log where action = 'client.updated')`); got !=
		"ada client.updated partner:kim, ada client.change_approved partner:kim" {
		t.Errorf("the log has %s", got)
	}
}

// A client has one open request: a later one adds to it and takes its place. It can be withdrawn, and a wrong one is never made.
func TestOpenChange(t *testing.T) {
	r := newRequests(t)
	if _, err := r.ChangeRequest(t.Context(), r.one.ID); !errors.Is(err, client.ErrNoChangeRequest) {
		t.Errorf("without one: %v", err)
	}
	first := r.asks(burst(50))
	second := r.asks(func(now *client.Registration) { now.Logo = brand.Logo{Name: "logo-1.png", Content: []byte("picture")} })
	if wanted, err := second.Wanted(rideClub); err != nil || wanted.Policy.Burst != 50 || wanted.Logo.Name == "" || first.ID == second.ID {
		t.Errorf("the second: %+v, %v", wanted, err)
	}
	if asked, err := r.RequestChange(r.ada, r.one.ID, burst(50)); !asked || err != nil || r.last().ID != second.ID || r.last().RequestedBy != "partner:kim" {
		t.Errorf("the same again: %t, %v, %+v", asked, err, r.last())
	}
	_, wrong := r.RequestChange(r.kim, r.one.ID, func(now *client.Registration) { now.CallbackURL = "http://ride.example/" })
	if field, is := errors.AsType[refusal.Field](wrong); !is || field.Path != "callback" || r.last().ID != second.ID {
		t.Errorf("a wrong one: %v", wrong)
	}
	for name, act := range map[string]func() error{
		"approved":  func() error { _, err := r.ApproveChange(r.ada, r.one.ID, first.ID); return err },
		"refused":   func() error { _, err := r.RefuseChange(r.ada, r.one.ID, first.ID, "no"); return err },
		"withdrawn": func() error { return r.WithdrawChange(r.kim, r.one.ID, first.ID) },
	} {
		if err := act(); !errors.Is(err, client.ErrNoChangeRequest) {
			t.Errorf("a replaced request is %s: %v", name, err)
		}
	}
	if err := r.WithdrawChange(r.kim, r.one.ID, second.ID); err != nil {
		t.Fatal(err)
	}
	r.asks(burst(50))
	if asked, err := r.RequestChange(r.kim, r.one.ID, burst(rideClub.Policy.Burst)); asked || err != nil { // as it is
		t.Fatal(asked, err)
	}
	if _, err := r.ChangeRequest(t.Context(), r.one.ID); !errors.Is(err, client.ErrNoChangeRequest) {
		t.Errorf("a request for nothing: %v", err)
	}
	r.is(rideClub)
	if got := pgtest.Value[string](t, r.db, "select string_agg(replace(action, 'client.change_', ''), ' ' order by id) from audit_log where actor = 'partner:kim'"); got !=
		"requested requested withdrawn requested withdrawn" {
		t.Errorf("the log has %s", got)
	}
	if _, err := r.RequestChange(r.kim, uuid.New(), burst(50)); !errors.Is(err, refusal.ErrClientNotFound) {
		t.Errorf("of nobody: %v", err)
	}
}

// A refused request changes nothing, and its answer stays. One that breaks a rule by now is refused with the rule.
func TestRefusedChange(t *testing.T) {
	r := newRequests(t)
	asked := r.asks(burst(50))
	for _, bad := range []string{" ", strings.Repeat("x", client.MaxAnswer+1), "a\u202eb"} {
		if _, err := r.RefuseChange(r.ada, r.one.ID, asked.ID, bad); err == nil {
			t.Errorf("the answer %q is taken", bad)
		}
	}
	if answered, err := r.RefuseChange(r.ada, r.one.ID, asked.ID, "First show us your tests."); err != nil || answered.State != client.ChangeRefused {
		t.Fatalf("refused: %+v, %v", answered, err)
	}
	if last := r.last(); last.Answer != "First show us your tests." || last.AnsweredBy != "ada" {
		t.Errorf("the answer: %+v", last)
	}
	r.is(rideClub)

	asked = r.asks(burst(60))
	if wanted, err := asked.Wanted(rideClub); err != nil || wanted.Policy.Burst != 60 || asked.Answer != "" {
		t.Errorf("after a refusal: %+v, %v", asked, err)
	}
	r.db.Exec(t, `update change_requests set wanted = '{"callback_url": "http://ride.example/new"}'`) // as an older program let it pass
	answered, err := r.ApproveChange(r.ada, r.one.ID, asked.ID)
	if err != nil || answered.State != client.ChangeRefused || answered.Answer != "callback must begin with https:// and a host" {
		t.Errorf("a stale one: %+v, %v", answered, err)
	}
	r.is(rideClub)

	r.asks(burst(70))
	if _, err := r.Offboard(r.ada, r.one.ID); err != nil {
		t.Fatal(err)
	}
	if n := pgtest.Value[int](t, r.db, "select count(*) from change_requests"); n != 0 {
		t.Errorf("%d requests outlive their client", n)
	}
	if _, err := r.RequestChange(r.kim, r.one.ID, burst(50)); !errors.Is(err, refusal.ErrClientOffboarded) {
		t.Errorf("of an offboarded client: %v", err)
	}
}
