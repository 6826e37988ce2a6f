package main

import (
	"strings"
	"testing"

	"connect-svc/internal/testing/mailtest"
	"connect-svc/internal/testing/pgtest"
)

// Commands take an address that is not ASCII before the @ if the mail server does, and say why not otherwise. check says which it is.
func TestAddressesBeyondASCII(t *testing.T) {
	t.Parallel()
	const row = "user_id,email,timezone,registered_on\n,SÖRE%@Bücher.example,UTC,2026-01-31\n"
	db := withWalker(t)
	offers, plain := mailtest.Start(t, mailtest.Config{UTF8: true}), mailtest.Start(t, mailtest.Config{})
	for n, test := range []struct{ url, refused, check string }{
		{"smtp://" + offers.Address, "", "takes a session, also for addresses that are not ASCII before the @ (SMTPUTF8)"},
		{"smtp://" + plain.Address, "because the mail server does not offer SMTPUTF8", "takes a session, not for addresses that are not ASCII before the @ (no SMTPUTF8)"},
		{"smtp://127.0.0.1:1", "and it could not be asked", "connect"},
		{"", "it is asked if CONNECT_SMTP_URL names it", ""},
	} {
		settings := env(db)
		if test.url != "" {
			settings = with(settings, "CONNECT_SMTP_URL="+test.url)
		}
		name := "söre" + string(rune('a'+n))
		for _, command := range []struct {
			stdin  string
			args   []string
			status int // if it is refused
		}{
			{"", []string{"user", "create", "--email", name + "@bücher.example", "--timezone", "UTC", "--registered-on", "2026-01-31"}, statusUsage},
			{"", []string{"user", "update", walker, "--email", name + "2@bücher.example"}, statusUsage},
			{strings.Replace(row, "%", string(rune('a'+n))+"3", 1), []string{"import", "users", "-"}, statusFailed},
		} {
			got := call(t, settings, command.stdin, command.args...)
			if test.refused == "" {
				if got.status != statusDone {
					t.Errorf("%q, %v: %+v", test.url, command.args[:2], got)
				}
			} else if got.status != command.status || !strings.Contains(got.stderr, test.refused) || strings.Contains(got.stderr, "söre") {
				t.Errorf("%q, %v: status %d, %s", test.url, command.args[:2], got.status, got.stderr)
			}
		}
		if test.check != "" {
			got := call(t, with(allSettings(t, db), "CONNECT_SMTP_URL="+test.url), "", "check")
			if !strings.Contains(got.stdout, test.check) {
				t.Errorf("check of %q:\n%s", test.url, got.stdout)
			}
		}
	}
	if got := succeed(t, env(db), "", "user", "show", "SÖREA3@xn--bcher-kva.EXAMPLE"); !strings.Contains(got, "SÖREa3@Bücher.example") {
		t.Errorf("found %s", got)
	}
}

// check names an encoding in which not all texts can be stored.
func TestCheckOfEncoding(t *testing.T) {
	t.Parallel()
	for options, want := range map[string]string{
		"encoding 'LATIN1' locale 'C'": "is LATIN1, in which not every name can be stored: move the data to a database whose encoding is UTF8",
		pgtest.Locales["C SQL_ASCII"]:  "", pgtest.Locales["C UTF8"]: "",
	} {
		got := call(t, allSettings(t, pgtest.NewWith(t, options)), "", "check")
		if strings.Contains(got.stdout, "encoding") != (want != "") || !strings.Contains(got.stdout, want) {
			t.Errorf("%s:\n%s", options, got.stdout)
		}
	}
}

// check names users who cannot sign in, one who shares an address with another one and one whose address is not valid, and does not change them.
func TestCheckOfUnusableAddresses(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.User(t, func(u *pgtest.User) { u.Email = "dup\u00e9@x.example" })
	settings := allSettings(t, db)
	if got := succeedJSON[checked](t, with(settings, "CONNECT_SMTP_URL=smtp://"+mailtest.Start(t, mailtest.Config{}).Address), "", "check"); got.statuses()["addresses"] != "" {
		t.Errorf("one address: %+v", got)
	}
	other := db.User(t, func(u *pgtest.User) { u.Email = "other@x.example" })
	for _, table := range []string{"users", "user_addresses"} { // as release 1.0.0 has stored it
		db.Exec(t, "update "+table+" set email = $2 where user_id = $1", other.ID, "dupe\u0301@x.example")
	}
	db.Exec(t, "update user_addresses set address = email where user_id = $1", other.ID)
	invalid := db.User(t, func(u *pgtest.User) { u.Email = "user@b_c.x.example" })
	for range 2 {
		got := call(t, settings, "", "check")
		if want := "users share their address with another user and cannot sign in, 1 in all, see Users (docs/operations.md): " + other.ID.String() +
			"; users have an address that is not valid and cannot sign in, 1 in all, see Users (docs/operations.md): " + invalid.ID.String(); !strings.Contains(got.stdout, want) ||
			got.status != statusFailed || strings.Contains(got.stdout, "x.example") {
			t.Errorf("status %d:\n%s", got.status, got.stdout)
		}
	}
}
