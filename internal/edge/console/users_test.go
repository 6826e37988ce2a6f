package console

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"connect-svc/internal/admin/audit"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/testing/contracttest"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

func TestUsers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	v := f.signedIn(t, edgetest.AdaToken)
	v.shows(v.Get(usersPath), headingUsers, f.User.Email, f.User.ID.String())
	v.goes(v.Get(usersPath+"?q=ada@example.com"), findPath+"?q=ada%40example.com") // bookmarks of earlier versions
	v.fails(v.Get(usersPath+"?after=x"), http.StatusBadRequest, "This page of the list does not exist")
	v.fails(v.Get(usersPath+"/"+uuid.NewString()), http.StatusNotFound, "There is no such user")
	v.fails(v.Get(usersPath+"/"+strings.ToUpper(f.User.ID.String())), http.StatusNotFound, "There is no such page")
}

// The page of a user and the search for an address have the log of sign-ins: the audit log has who looked at it.
func TestReadersOfSignIns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	v := f.signedIn(t, edgetest.GraceToken)
	for _, test := range []struct{ path, user string }{
		{userPath(f.User.ID), f.User.ID.String()}, {findPath + "?q=nobody@example.com", uuid.Nil.String()},
	} {
		if got := v.Get(test.path); got.StatusCode != http.StatusOK {
			t.Fatalf("%s: status %d", test.path, got.StatusCode)
		}
		if n := pgtest.Value[int](t, f.DB, "select count(*) from audit_log where actor = 'grace' and action = 'sign_ins.viewed' and subject = $1", test.user); n != 1 {
			t.Errorf("%s: %d entries", test.path, n)
		}
	}
}

// A copy is a file, which those may have who may read alone. The audit log has who took it.
func TestExportUser(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for token, name := range map[string]string{edgetest.AdaToken: "ada", edgetest.GraceToken: "grace"} {
		v := f.signedIn(t, token)
		export := v.Get(userPath(f.User.ID)).Find("a[href$='/export']").AttrOr("href", "")
		got := v.Get(export)
		if err := contracttest.Operator.CheckSchema("UserCopy", []byte(got.Source)); err != nil || got.StatusCode != http.StatusOK || !strings.Contains(got.Source, f.User.Email) {
			t.Errorf("%s gets %d: %s, %v", export, got.StatusCode, got.Source, err)
		}
		want := `attachment; filename="user-` + f.User.ID.String() + `.json"`
		if name := got.Header.Get("Content-Disposition"); name != want || got.Header.Get("Content-Type") != "application/json" {
			t.Errorf("a file %s of type %s", name, got.Header.Get("Content-Type"))
		}
		if n := pgtest.Value[int](t, f.DB, "select count(*) from audit_log where actor = $1 and action = 'user.exported' and subject = $2", name, f.User.ID); n != 1 {
			t.Errorf("%d entries of %s", n, name)
		}
	}
	v := f.signedIn(t, edgetest.AdaToken)
	v.fails(v.Get(userPath(uuid.New())+"/export"), http.StatusNotFound, "There is no such user")
}

// All pages of the list are all users, each once.
func TestUserPages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.DB.Exec(t, `insert into users (user_id, email, timezone, registered_on, created_at)
		select gen_random_uuid(), n || '@many.example', 'UTC', '2020-01-01', connect_now() from generate_series(1, 120) n`)
	v := f.signedIn(t, edgetest.GraceToken)
	seen := map[string]bool{}
	path, read := usersPath, 0
	for path != "" {
		list := v.Get(path)
		read++
		for _, email := range list.Find("tbody th").EachIter() {
			seen[email.Text()] = true
		}
		path = list.Find("a[rel=next]").AttrOr("href", "")
	}
	if len(seen) != 121 || read != 3 {
		t.Errorf("%d users on %d pages", len(seen), read)
	}
}

func TestDeleteUser(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.ConnectNew(t, "Ride Club")
	f.ConnectNew(t, "Walk Club")
	path := userPath(f.User.ID) + "/delete"

	grace := f.signedIn(t, edgetest.GraceToken)
	if acts := grace.Get(userPath(f.User.ID)).Find(".acts").Length(); acts != 0 {
		t.Errorf("who may only look is shown %d acts", acts)
	}
	grace.fails(grace.Post(path), http.StatusForbidden, headingReadOnly)

	ada := f.signedIn(t, edgetest.AdaToken)
	ada.shows(ada.Get(path), "Delete "+f.User.Email+"?", "This ends 2 connections.", "0 days of steps, 0 rides and 0 corrections", "It cannot be undone.")
	if n := pgtest.Value[int64](t, f.DB, "select count(*) from users"); n != 1 {
		t.Fatal("looking has deleted the user")
	}
	ada.goes(ada.Post(path), usersPath+"?done=user_deleted")
	ada.shows(ada.Get(usersPath+"?done=user_deleted"), headingUsers, "The user is deleted.")
	ada.fails(ada.Post(path), http.StatusNotFound, "There is no such user")
	log, err := f.config.Audit.List(t.Context(), audit.Filter{UserID: f.User.ID, Action: "user.deleted"}, page.Key{}, 10)
	if err != nil || len(log.Events) != 1 || log.Events[0].Actor != "ada" {
		t.Errorf("audit log: %+v, %v", log.Events, err)
	}
}
