package portal_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/admin/portal"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

type fixture struct {
	*testing.T
	db      *pgtest.DB
	portal  *portal.Portal
	clients *client.Registry
	partner pgtest.Client
	ctx     context.Context // of the operator ada
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	t.Parallel()
	db := pgtest.New(t)
	db.StartAt(t, time.Now())
	return fixture{t, db, portal.New(db.Pool), client.NewRegistry(db.Pool, oauth.EndConnectionsOfClient), db.Client(t), work.WithActor(t.Context(), "ada")}
}

func (f fixture) link(change ...func(*portal.NewLink)) (portal.Session, string) {
	f.Helper()
	of := portal.NewLink{ClientID: f.partner.ID, Name: "kim", Valid: portal.MaxValid}
	for _, one := range change {
		one(&of)
	}
	made, secret, err := f.portal.CreateLink(f.ctx, of)
	if err != nil {
		f.Fatal(err)
	}
	return made, secret
}

func (f fixture) open(secret string) (portal.Session, string) {
	f.Helper()
	session, key, err := f.portal.Open(f.ctx, f.partner.ID, secret, "")
	if err != nil {
		f.Fatal(err)
	}
	return session, key
}

// works reports whether a link can be opened, or a session used.
func (f fixture) works(secret string) bool {
	f.Helper()
	_, link := f.portal.Link(f.ctx, f.partner.ID, secret)
	_, session := f.portal.Session(f.ctx, f.partner.ID, secret)
	for _, err := range []error{link, session} {
		if err != nil && !errors.Is(err, portal.ErrNoSession) {
			f.Fatal(err)
		}
	}
	if link == nil && session == nil {
		f.Error("a secret is of a link and of a session")
	}
	return link == nil || session == nil
}

func TestOneBrowserOpensALink(t *testing.T) {
	f := newFixture(t)
	made, secret := f.link()
	for range 2 { // a program that looks at messages opens links, too
		if !f.works(secret) {
			t.Fatal("looking at a link used it up")
		}
	}
	var opened atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			session, key, err := f.portal.Open(f.ctx, f.partner.ID, secret, "")
			switch {
			case err == nil:
				opened.Add(1)
				if got, err := f.portal.Session(f.ctx, f.partner.ID, key); err != nil || got != session || got.ID != made.ID || got.Actor() != "partner:kim" {
					t.Errorf("the session is %+v, %v; want %+v", got, err, session)
				}
			case !errors.Is(err, portal.ErrNoSession):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if opened.Load() != 1 || f.works(secret) {
		t.Errorf("%d of 8 browsers opened the link; it works still: %t", opened.Load(), f.works(secret))
	}
}

// A form that is sent several times opens one session.
func TestOneFormOpensALink(t *testing.T) {
	f := newFixture(t)
	_, secret := f.link()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			session, key, err := f.portal.Open(f.ctx, f.partner.ID, secret, "a form")
			if err != nil {
				t.Error(err)
			} else if got, err := f.portal.Session(f.ctx, f.partner.ID, key); err != nil || got != session {
				t.Errorf("the session is %+v, %v; want %+v", got, err, session)
			}
		})
	}
	all.Wait()
	for _, other := range []string{"", "another form", secret} {
		if session, _, err := f.portal.Open(f.ctx, f.partner.ID, secret, other); !errors.Is(err, portal.ErrNoSession) {
			t.Errorf("%q opens %+v, %v", other, session, err)
		}
	}
	if n := pgtest.Value[int](t, f.db, "select count(*) from audit_log where action = 'client.portal_opened'"); n != 1 {
		t.Errorf("%d openings", n)
	}
}

func TestSessionIsForItsClient(t *testing.T) {
	f := newFixture(t)
	_, secret := f.link()
	other := f.db.Client(t)
	if _, _, err := f.portal.Open(f.ctx, other.ID, secret, ""); !errors.Is(err, portal.ErrNoSession) {
		t.Errorf("a link is opened for another client: %v", err)
	}
	_, key := f.open(secret)
	if _, err := f.portal.Session(f.ctx, other.ID, key); !errors.Is(err, portal.ErrNoSession) {
		t.Errorf("a session is that of another client: %v", err)
	}
	session, err := f.portal.Session(f.ctx, f.partner.ID, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.portal.End(f.ctx, other.ID, session.ID); !errors.Is(err, portal.ErrNoSession) || !f.works(key) {
		t.Errorf("a session was ended as that of another client: %v", err)
	}
}

func TestWhatEndsSessions(t *testing.T) {
	f := newFixture(t)
	for name, end := range map[string]func(one portal.Session) error{
		"end":  func(one portal.Session) error { return f.portal.End(f.ctx, f.partner.ID, one.ID) },
		"all":  func(portal.Session) error { return f.portal.EndAll(f.ctx, f.partner.ID) },
		"time": func(portal.Session) error { f.db.Clock.Advance(portal.MaxValid); return nil },
		"replaced": func(portal.Session) error {
			f.link(func(l *portal.NewLink) { l.Replace = true })
			return f.portal.EndAll(f.ctx, f.partner.ID)
		},
		"disabled": func(portal.Session) error {
			return errors.Join(f.clients.Disable(f.ctx, f.partner.ID), f.clients.Enable(f.ctx, f.partner.ID))
		},
	} {
		for _, opened := range []bool{false, true} {
			one, secret := f.link()
			if opened {
				one, secret = f.open(secret)
			}
			if err := end(one); err != nil {
				t.Fatal(err)
			}
			if f.works(secret) {
				t.Errorf("%s: it still works; opened: %t", name, opened)
			}
		}
	}
	_, secret := f.link()
	if _, err := f.clients.Offboard(f.ctx, f.partner.ID); err != nil || f.works(secret) {
		t.Errorf("a link outlives its client: %v", err)
	}
}

// A session lasts its own time, and not that of its link.
func TestLifetimes(t *testing.T) {
	f := newFixture(t)
	_, first := f.link(func(l *portal.NewLink) { l.Valid = time.Minute })
	_, key := f.open(first)
	_, second := f.link(func(l *portal.NewLink) { l.Valid = time.Minute })
	f.db.Clock.Advance(time.Minute)
	if f.works(second) || !f.works(key) {
		t.Errorf("after a minute the link works: %t, and the session: %t", f.works(second), f.works(key))
	}
	f.db.Clock.Advance(portal.SessionLifetime - time.Minute)
	if f.works(key) {
		t.Error("a session outlasts its time")
	}
	if err := f.portal.Sweep(t.Context(), f.db.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	var rows int
	if err := f.db.Pool.QueryRow(t.Context(), "select count(*) from portal_sessions").Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d rows are left: %v", rows, err)
	}
}

func TestLinksAreBounded(t *testing.T) {
	f := newFixture(t)
	for range portal.MaxSessions {
		f.link()
	}
	if _, _, err := f.portal.CreateLink(f.ctx, portal.NewLink{ClientID: f.partner.ID, Valid: time.Hour}); !errors.Is(err, portal.ErrTooMany) {
		t.Errorf("one more than the most: %v", err)
	}
	f.link(func(l *portal.NewLink) { l.Replace = true })
	if all, err := f.portal.Sessions(f.ctx, f.partner.ID); err != nil || len(all) != 1 {
		t.Errorf("after all were replaced there are %d: %v", len(all), err)
	}
}

// Links that replace the others at the same time replace one another, too.
func TestLinksThatReplaceAtOnce(t *testing.T) {
	f := newFixture(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, _, err := f.portal.CreateLink(f.ctx, portal.NewLink{ClientID: f.partner.ID, Valid: time.Hour, Replace: true}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if all, err := f.portal.Sessions(f.ctx, f.partner.ID); err != nil || len(all) != 1 {
		t.Errorf("there are %d: %v", len(all), err)
	}
}

// Links and sessions that have expired count no more, before they are swept.
func TestExpiredLinksLeaveRoom(t *testing.T) {
	f := newFixture(t)
	for range portal.MaxSessions {
		f.link(func(l *portal.NewLink) { l.Valid = time.Minute })
	}
	f.db.Clock.Advance(time.Minute)
	f.link()
	if n := pgtest.Value[int](t, f.db, "select count(*) from portal_sessions"); n != portal.MaxSessions+1 {
		t.Errorf("there are %d rows", n)
	}
}

func TestLinksThatAreRefused(t *testing.T) {
	f := newFixture(t)
	for field, wrong := range map[string]portal.NewLink{
		"name": {Name: "kim lee", Valid: time.Hour}, "valid_seconds": {Valid: portal.MaxValid + time.Second},
	} {
		wrong.ClientID = f.partner.ID
		_, _, err := f.portal.CreateLink(f.ctx, wrong)
		if problem, is := errors.AsType[refusal.Field](err); !is || problem.Path != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, _, err := f.portal.CreateLink(f.ctx, portal.NewLink{ClientID: uuid.New(), Valid: time.Hour}); !errors.Is(err, refusal.ErrClientNotFound) {
		t.Errorf("nobody's link: %v", err)
	}
	if err := f.clients.Disable(f.ctx, f.partner.ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.portal.CreateLink(f.ctx, portal.NewLink{ClientID: f.partner.ID, Valid: time.Hour}); !errors.Is(err, portal.ErrClientDisabled) {
		t.Errorf("a link to a disabled client: %v", err)
	}
}

func TestPortalIsAudited(t *testing.T) {
	f := newFixture(t)
	_, secret := f.link()
	session, _ := f.open(secret)
	if err := f.portal.End(f.ctx, f.partner.ID, session.ID); err != nil {
		t.Fatal(err)
	}
	f.link()
	if err := f.portal.EndAll(f.ctx, f.partner.ID); err != nil {
		t.Fatal(err)
	}
	rows, err := f.db.Pool.Query(t.Context(), "select actor, action from audit_log where client_id = $1 order by id", f.partner.ID)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for rows.Next() {
		var who, what string
		if err := rows.Scan(&who, &what); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(who, " ", what))
	}
	want := []string{
		"ada client.portal_link_created", "partner:kim client.portal_opened", "ada client.portal_session_ended",
		"ada client.portal_link_created", "ada client.portal_sessions_ended",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the log has %q, want %q", got, want)
	}
}
