package main

import (
	"slices"
	"strings"
	"testing"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/testing/pgtest"
)

func TestAuditList(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	client := succeedJSON[operatorapi.CreatedClient](t, env(db), "", walkRewards...)
	user := succeedJSON[operatorapi.User](t, env(db), "", "user", "create", "--email", "ada@example.com", "--timezone", "UTC",
		"--registered-on", "2026-01-31")
	list := func(filter ...string) []operatorapi.AuditEvent {
		t.Helper()
		return slices.DeleteFunc(succeedJSON[[]operatorapi.AuditEvent](t, env(db), "", append([]string{"audit", "list"}, filter...)...),
			func(e operatorapi.AuditEvent) bool { return e.Action == "audit.exported" })
	}

	all := list()
	if len(all) != 2 || all[0].Action != "client.created" || all[1].Action != "user.created" {
		t.Fatalf("all: %+v", all)
	}
	if e := all[0]; e.Actor != "cli:grace" || *e.ClientId != client.ClientId || e.UserId != nil || e.ConnectionVersion != nil {
		t.Errorf("of a client: %+v", e)
	}
	if e := all[1]; e.ClientId != nil || e.UserId == nil || *e.UserId != user.UserId || string(e.Detail) != "{}" {
		t.Errorf("of a user: %+v", e)
	}
	for name, test := range map[string]struct {
		filter []string
		want   int
	}{
		"client":      {[]string{"--client", client.ClientId.String()}, 1},
		"user":        {[]string{"--user", user.UserId.String()}, 1},
		"both":        {[]string{"--user", user.UserId.String(), "--client", client.ClientId.String()}, 0},
		"since a day": {[]string{"--since", "2026-01-31"}, 2},
		"since never": {[]string{"--since", "9999-12-31T23:59:59Z"}, 0},
	} {
		if got := list(test.filter...); len(got) != test.want || got == nil {
			t.Errorf("%s: %+v, want %d", name, got, test.want)
		}
	}
	text := succeed(t, env(db), "", "audit", "list", "--until", "2999-01-01", "--actor", "cli:grace")
	if strings.Count(text, "\n") != 10 || !strings.HasPrefix(text, "AT ") || !strings.Contains(text, "client.created") {
		t.Errorf("not a table of two events, and of those who listed them:\n%s", text)
	}
	if exports := strings.Count(text, "audit.exported"); exports != 7 || !strings.Contains(text, `{"actor":"cli:grace","by":"command_line","until":"2999-01-01T00:00:00Z"}`) {
		t.Errorf("%d exports:\n%s", exports, text)
	}
	if strings.Contains(text, client.ClientSecret) || strings.Contains(text, "ada@example.com") {
		t.Errorf("a secret or an address:\n%s", text)
	}

	// Without a name it is the system's user.
	system := succeedJSON[[]operatorapi.AuditEvent](t, env(db)[:1], "", "audit", "list", "--action", "audit.exported")
	if by := system[len(system)-1].Actor; !strings.HasPrefix(by, "cli:") || by == "cli:grace" {
		t.Errorf("a command without a name is that of %q", by)
	}
	refuse(t, append(env(db)[:1], "CONNECT_OPERATOR=Ada King"), statusUsage, []string{"CONNECT_OPERATOR", "is not a name"}, "audit", "list")

	// More events than one page.
	db.Exec(t, `insert into audit_log (subject, client_id, actor, action) select $1, $1, 'system', 'test' from generate_series(1, 2500)`, client.ClientId)
	if got := list(); len(got) != 2502 {
		t.Errorf("%d events, want 2502", len(got))
	}
	refuse(t, env(db), statusUsage, []string{"--since", "must be"}, "audit", "list", "--since", "yesterday")
}

func TestDetailInATable(t *testing.T) {
	if got := cell(map[string]any{"name": "Walk & Ride\u009b31m\u202e"}); got != `{"name":"Walk & Ride 31m "}` {
		t.Errorf("%q", got)
	}
}
