package main

import (
	"strings"
	"testing"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/admin/portal"
	"connect-svc/internal/testing/pgtest"
)

func TestClientPortal(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	id := db.Client(t).ID.String()
	const origin = "https://connect.example.com"
	environment := append(env(db), "CONNECT_BASE_URL="+origin)
	list := func(args ...string) []operatorapi.PortalSession {
		t.Helper()
		return succeedJSON[[]operatorapi.PortalSession](t, environment, "", append([]string{"client", "portal-sessions", id}, args...)...)
	}
	made := succeedJSON[operatorapi.PortalLink](t, environment, "", "client", "portal-link", id, "--name", "kim", "--read-only", "--valid", "1m")
	if !strings.HasPrefix(made.Url, origin+portal.Path+"/"+id+"/open/") || made.Session.Name != "kim" || !made.Session.ReadOnly {
		t.Errorf("the link is %s of %+v", made.Url, made.Session)
	}
	succeedJSON[operatorapi.PortalLink](t, environment, "", "client", "portal-link", id)
	if all := list(); len(all) != 2 || all[1] != made.Session || all[0].Name != portal.DefaultName {
		t.Errorf("the links are %+v", all)
	}
	if all := list("--end", made.Session.SessionId.String()); len(all) != 1 {
		t.Errorf("after one was ended: %+v", all)
	}
	if all := list("--end-all"); len(all) != 0 {
		t.Errorf("after all were ended: %+v", all)
	}
	refuse(t, environment, statusUsage, []string{"--valid: must be 1m to 24h"}, "client", "portal-link", id, "--valid", "25h")
	refuse(t, environment, statusUsage, []string{"--name: must be 1 to 64 letters"}, "client", "portal-link", id, "--name", "kim lee")
	refuse(t, environment, statusUsage, []string{"--end-all"}, "client", "portal-sessions", id, "--end-all", "--end", id)
	refuse(t, environment, statusFailed, []string{"no such link"}, "client", "portal-sessions", id, "--end", id)
}
