//go:build timed

package standstill_test

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/domain/activity"
	"connect-svc/internal/edge/console"
	"connect-svc/internal/testing/edgetest"
)

// clerk is a browser in which an operator has signed in to the console.
type clerk struct {
	*whole
	client *http.Client
}

func (w *whole) clerk(t *testing.T) *clerk {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c := &clerk{w, &http.Client{Transport: w.plain, Jar: jar, CheckRedirect: stay}}
	got, err := c.post("/sign-in", "/sign-in", url.Values{"token": {edgetest.UnnamedToken}}).send(t)
	if err != nil || got.status != http.StatusSeeOther {
		t.Fatalf("sign-in to the console: %d, %v", got.status, err)
	}
	return c
}

// get asks for the page of a pattern; path is the one below /console.
func (c *clerk) get(pattern, path string) ask {
	return ask{"GET " + console.Path + pattern, nil, c.client, http.MethodGet, c.private + console.Path + path, nil, "", actLimit, 200, 500}
}

// post sends a form, after which the browser is led on.
func (c *clerk) post(pattern, path string, form url.Values) ask {
	return ask{"POST " + console.Path + pattern, nil, c.client, http.MethodPost, c.private + console.Path + path,
		http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, form.Encode(), actLimit, 303, 500}
}

// consoleAsks are a request for each page and act of the console.
func (w *whole) consoleAsks(t *testing.T) []ask {
	t.Helper()
	user, _ := w.connected(t)
	deleted := "/users/" + w.DB.User(t).ID.String()
	page := "/users/" + user.ID.String()
	connection := page + "/connections/" + w.Partner.ID.String()
	correction, err := w.App.Activity.Adjust(t.Context(), activity.AdjustedSteps, activity.AdjustmentRecord{UserID: user.ID, Date: time.Date(2026, 3, 9, 0, 0, 0, 0, time.UTC), Delta: 1})
	if err != nil {
		t.Fatal(err)
	}
	remove := page + "/corrections/daily_steps/" + correction.ID.String() + "/remove"
	one, leaving := w.clerk(t), w.clerk(t)
	signIn := one.get("/sign-in", "/sign-in")
	signIn.client = &http.Client{Transport: w.plain} // asks nobody, since there is no session to ask for
	signIn.fault = 200
	style := one.get("/static/{name}", w.consoleStyle(t))
	style.fault = 200
	zone := one.post("/zone", "/zone", url.Values{"zone": {"Europe/Berlin"}})
	zone.fault = 303
	slash := one.get("/", "/")
	slash.well = 303
	return append([]ask{
		signIn, style, zone, one.get("", ""), slash,
		one.post("/sign-in", "/sign-in", url.Values{"token": {edgetest.UnnamedToken}}),
		leaving.post("/sign-out", "/sign-out", nil),
		one.get("/users", "/users"),
		one.get("/users/{user}", "/users/"+user.ID.String()),
		one.get("/users/{user}/export", page+"/export"),
		one.get("/users/{user}/change", page+"/change"),
		one.post("/users/{user}/change", page+"/change", url.Values{"timezone": {"Asia/Tokyo"}, "was_timezone": {"UTC"}}),
		one.get("/find", "/find?q=nobody@example.com"),
		one.get("/users/{user}/lift-limits", page+"/lift-limits"),
		one.post("/users/{user}/lift-limits", page+"/lift-limits", nil),
		one.get("/users/{user}/adjust", page+"/adjust"),
		one.post("/users/{user}/adjust", page+"/adjust", url.Values{
			"dataset": {"cycling_daily"}, "date": {"2026-03-09"}, "delta": {"5"}, "correction": {uuid.NewString()}, "total": {""},
		}),
		one.get("/users/{user}/corrections/{dataset}/{correction}/remove", remove),
		one.post("/users/{user}/corrections/{dataset}/{correction}/remove", remove, nil),
		one.get("/users/{user}/connections/{client}", connection),
		one.get("/users/{user}/connections/{client}/disconnect", connection+"/disconnect"),
		one.post("/users/{user}/connections/{client}/disconnect", connection+"/disconnect", nil),
		one.get("/users/{user}/delete", deleted+"/delete"),
		one.post("/users/{user}/delete", deleted+"/delete", nil),
		one.get("/service", "/service"), one.post("/service/dismiss", "/service/dismiss", url.Values{"server": {uuid.NewString()}}),
		one.get("/audit", "/audit?actor=operator&action=user.created"),
		one.get("/audit.csv", "/audit.csv?actor=operator"),
	}, w.partnerPageAsks(t, one)...)
}

// consoleStyle is the path of the console's style. It changes with the file.
func (w *whole) consoleStyle(t *testing.T) string {
	t.Helper()
	page, err := (&clerk{w, &http.Client{Transport: w.plain}}).get("", "/sign-in").send(t)
	if err != nil {
		t.Fatal(err)
	}
	return staticPath.FindString(page.body)
}
