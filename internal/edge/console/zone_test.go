package console

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"connect-svc/internal/testing/edgetest"
)

// An operator sees times in a zone of their own, with UTC beside; others, the portal and what people wrote stay as they are.
func TestZone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const forged = `<time datetime="2026-03-10T12:34:00Z">2026-03-10 12:34:00</time>`
	partner, _ := f.ConnectNew(t, forged)
	v, other := f.signedIn(t, edgetest.GraceToken), f.signedIn(t, edgetest.AdaToken)
	registered := func(v visitor) string {
		return strings.Join(strings.Fields(v.Get(pathOf(partner.ID)).Find("#registration ~ dl time").First().Text()), " ")
	}
	for _, step := range []struct{ zone, done, shown string }{
		{"", "", "2026-03-10 12:34:00"},
		{"Europe/Nowhere", "zone_unknown", "2026-03-10 12:34:00"},
		{"Asia/Calcutta", "zone_set", "2026-03-10 18:04:00 12:34 UTC"},
		{"Pacific/Auckland", "zone_set", "2026-03-11 01:34:00 2026-03-10 12:34 UTC"},
		{"nonsense\"", "zone_unknown", "2026-03-11 01:34:00 2026-03-10 12:34 UTC"},
		{"UTC", "zone_set", "2026-03-10 12:34:00"},
		{"Europe/Berlin", "zone_set", "2026-03-10 13:34:00 12:34 UTC"}, // before summer time
	} {
		if step.done != "" {
			v.goes(v.Post(Path+"/zone", "zone", step.zone), Path+"?done="+step.done)
		}
		if got := registered(v); got != step.shown {
			t.Errorf("after %q a partner was registered at %q, want %q", step.zone, got, step.shown)
		}
	}
	page := v.Get(pathOf(partner.ID))
	v.shows(page, forged, "Times are in Europe/Berlin, with UTC beside.")
	if at := page.Find("#registration ~ dl time").First().AttrOr("datetime", ""); at != "2026-03-10T12:34:00Z" {
		t.Errorf("a program reads %s", at)
	}
	if got := registered(other); got != "2026-03-10 12:34:00" {
		t.Errorf("somebody else sees %q", got)
	}
	v.shows(v.Get(Path+"?done=zone_unknown"), "Overview", "There is no such time zone.")

	if _, err := f.Webhooks.SetEndpoint(t.Context(), partner.ID, "https://ride.example/hooks"); err != nil {
		t.Fatal(err)
	}
	other.goes(other.Post(Path+"/zone", "zone", "Europe/Berlin"), Path+"?done=zone_set")
	for path, fields := range map[string][]string{
		"/portal/link": {"name", "lee", "rights", "change", "valid", "86400"}, "/secret": {"overlap", "86400", "older", ""},
		"/webhooks/secret": formOf(other.Get(pathOf(partner.ID) + "/webhooks/secret")),
	} {
		made := other.Post(pathOf(partner.ID)+path, fields...)
		if text := strings.Join(strings.Fields(made.Find("main").Text()), " "); !strings.Contains(text, "until 2026-03-11 13:34:00 12:34 UTC.") {
			t.Errorf("%s, which is valid for a day, says %q", path, text)
		}
	}
}

func TestChromiumZone(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	a := s.ask(t)
	s.at(t, Path)
	s.Submit(chromedp.SetValue(chromedp.CSS("#zone"), "Asia/Kolkata"), chromedp.Click(chromedp.CSS(".zone button")))
	s.at(t, pathOf(a.busy))
	s.looks(t, "partner-in-kolkata")
	s.at(t, auditPath)
	s.looks(t, "audit-in-kolkata")
}
