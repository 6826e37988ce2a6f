package console

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"connect-svc/internal/audit"
	"connect-svc/internal/testing/pgtest"
)

func TestUsers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	v := f.signedIn(t, adaToken)
	v.shows(v.get(usersPath), headingUsers, f.user.Email, f.user.ID.String())
	for _, query := range []string{f.user.ID.String(), strings.ToUpper(f.user.Email)} {
		v.goes(v.get(usersPath+"?q="+query), userPath(f.user.ID))
	}
	for _, query := range []string{"nobody@example.com", uuid.NewString(), "%25", "a'--"} {
		v.shows(v.get(usersPath+"?q="+query), headingUsers, "No user has this address or ID, and no connection this grant ID.")
	}
	v.fails(v.get(usersPath+"?after=x"), http.StatusBadRequest, "This page of the list does not exist")
	v.fails(v.get(usersPath+"/"+uuid.NewString()), http.StatusNotFound, "There is no such user")
	v.fails(v.get(usersPath+"/"+strings.ToUpper(f.user.ID.String())), http.StatusNotFound, "There is no such page")
}

// All pages of the list are all users, each once.
func TestUserPages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.db.Exec(t, `insert into users (user_id, email, timezone, registered_on, created_at)
		select gen_random_uuid(), n || '@many.example', 'UTC', '2020-01-01', connect_now() from generate_series(1, 120) n`)
	v := f.signedIn(t, graceToken)
	seen := map[string]bool{}
	path, read := usersPath, 0
	for path != "" {
		list := v.get(path)
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
	f.connect(t, "Ride Club")
	f.connect(t, "Walk Club")
	path := userPath(f.user.ID) + "/delete"

	grace := f.signedIn(t, graceToken)
	if acts := grace.get(userPath(f.user.ID)).Find(".acts").Length(); acts != 0 {
		t.Errorf("who may only look is shown %d acts", acts)
	}
	grace.fails(grace.post(path), http.StatusForbidden, headingReadOnly)

	ada := f.signedIn(t, adaToken)
	ada.shows(ada.get(path), "Delete "+f.user.Email+"?", "It ends 2 connections.", "0 days of steps, 0 rides and 0 corrections", "This cannot be undone.")
	if n := pgtest.Value[int64](t, f.db, "select count(*) from users"); n != 1 {
		t.Fatal("looking has deleted the user")
	}
	ada.goes(ada.post(path), usersPath+"?done=user_deleted")
	ada.shows(ada.get(usersPath+"?done=user_deleted"), headingUsers, "The user is deleted.")
	ada.fails(ada.post(path), http.StatusNotFound, "There is no such user")
	log, err := f.config.Audit.List(t.Context(), audit.Filter{UserID: f.user.ID, Action: "user.deleted"}, audit.Position{}, 10)
	if err != nil || len(log.Events) != 1 || log.Events[0].Actor != "ada" {
		t.Errorf("audit log: %+v, %v", log.Events, err)
	}
}
