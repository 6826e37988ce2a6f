package operator

import (
	"slices"
	"strings"
	"testing"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/admin/portal"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

func TestPortalLinks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.DB.Client(t)
	path := "/operator/v1/clients/" + partner.ID.String()
	list := func() []operatorapi.PortalSession {
		t.Helper()
		return get[operatorapi.PortalSessions](t, f, path+"/portal-sessions").Data
	}
	ends := func(links, sessions int64) {
		t.Helper()
		if p := get[operatorapi.ClientPreview](t, f, path+"/preview"); p.PortalLinks != links || p.PortalSessions != sessions {
			t.Errorf("the preview is %+v, want %d links and %d sessions", p, links, sessions)
		}
	}
	ends(0, 0)
	got := f.post(t, path+"/portal-links", `{"name":"kim","read_only":true,"valid_seconds":60}`)
	got.Check(t, 201, "", "create")
	made := edgetest.Decode[operatorapi.PortalLink](t, got)
	secret, ours := strings.CutPrefix(made.Url, "https://connect.example.com"+portal.LinkPath(partner.ID, ""))
	if !ours {
		t.Fatalf("the link is not at the public listener: %s", made.Url)
	}
	if all := list(); len(all) != 1 || all[0] != made.Session || all[0].Name != "kim" || !all[0].ReadOnly || all[0].OpenedAt != nil {
		t.Errorf("the sessions are %+v, want %+v", all, made.Session)
	}
	ends(1, 0)
	_, key, err := f.Portal.Open(t.Context(), partner.ID, secret, "")
	if err != nil {
		t.Fatal(err)
	}
	if all := list(); len(all) != 1 || all[0].OpenedAt == nil {
		t.Errorf("after the link was opened: %+v", all)
	}
	ends(0, 1)
	f.post(t, path+"/portal-links", `{"replace":true}`).Check(t, 201, "", "replace")
	if _, err := f.Portal.Session(t.Context(), partner.ID, key); err == nil {
		t.Error("a session outlives that all links were replaced")
	}
	f.send(t, outgoing{Method: "DELETE", Target: path + "/portal-sessions/" + list()[0].SessionId.String()}).Check(t, 204, "", "end")
	if all := list(); len(all) != 0 {
		t.Errorf("an ended link is listed: %+v", all)
	}
	if strings.Contains(f.Log.String(), secret) {
		t.Error("the log has the secret of a link")
	}
}

// Before a request for another name is approved, it tells with whom users could confuse that name, as the console does.
func TestLookAlikesOfARequest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.DB.Client(t, func(c *pgtest.Client) { c.Name = "Ride Club" })
	other := f.DB.Client(t, func(c *pgtest.Client) { c.Name = "Walk Rewards" })
	for name, want := range map[string][]operatorapi.LookAlike{"WaIk Rewards": {{ClientId: other.ID, Name: "Walk Rewards"}}, "Ríde Club": {}, "Ride Club": {}} {
		if _, err := f.Clients.RequestChange(t.Context(), partner.ID, func(r *client.Registration) { r.Name, r.Policy.Burst = name, 7 }); err != nil {
			t.Fatal(err)
		}
		if asked := get[operatorapi.ChangeRequest](t, f, "/operator/v1/clients/"+partner.ID.String()+"/change-request"); !slices.Equal(asked.LookAlikes, want) || asked.LookAlikes == nil {
			t.Errorf("%s: %+v, want %+v", name, asked.LookAlikes, want)
		}
	}
}
