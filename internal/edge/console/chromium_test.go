package console

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/uuid"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/testing/browsertest"
	"connect-svc/internal/testing/edgetest"
)

// screen is a fixture that a real browser looks at.
type screen struct {
	*fixture
	*browsertest.Tab
}

// newScreen is the console in a browser in which ada has signed in.
func newScreen(t *testing.T) *screen {
	t.Helper()
	f := newFixture(t)
	s := &screen{f, browsertest.Share(t, nil).NewTab(t)}
	s.Open(f.server.URL + Path)
	s.Submit(chromedp.SendKeys(chromedp.CSS("#token"), edgetest.AdaToken), chromedp.Click(chromedp.CSS("button.act")))
	s.IsTitled("Overview · Console · Activity Connect")
	return s
}

// at opens a page of the console.
func (s *screen) at(t *testing.T, path string) {
	t.Helper()
	if status := s.Open(s.server.URL + path); status != http.StatusOK {
		t.Fatalf("%s answers %d", path, status)
	}
}

// looks holds the page that is open against the rules for all: axe, the contrast in light and dark, nothing cut off at 1280 and 320 px
// and with letters twice as large, one main heading, a name for each drawing and for whatever takes the focus. A picture of each is taken on request.
func (s *screen) looks(t *testing.T, name string) {
	t.Helper()
	s.Do(chromedp.Evaluate[chromedp.Void](`void document.querySelectorAll("details").forEach((d, i) => d.open = i === 0)`))
	for _, scheme := range []string{"dark", "light"} {
		s.Media("prefers-color-scheme", scheme)
		if scheme == "light" { // what colors decide, the contrast, is measured with the layout; links are underlined
			for _, violation := range s.Violations() {
				t.Errorf("%s: %s", name, violation)
			}
		}
		for _, width := range []int64{1280, 320} {
			if scheme == "dark" && width == 320 && !browsertest.Pictures() {
				continue // colors move nothing
			}
			s.Do(chromedp.EmulateViewport(width, 800))
			for _, fault := range s.LayoutFaults() {
				t.Errorf("%s, %s, %d px: %s", name, scheme, width, fault)
			}
			if width == 1280 && scheme == "light" {
				s.isInLine(t, name)
			}
			if browsertest.Pictures() {
				s.Screenshot(filepath.Join(t.ArtifactDir(), fmt.Sprintf("%s-%s-%d.png", name, scheme, width)))
			}
		}
	}
	s.Evaluate("document.documentElement.style.fontSize = '200%'", new(string))
	for _, fault := range s.LayoutFaults() {
		t.Errorf("%s, 320 px, with letters twice as large: %s", name, fault)
	}
	var skip float64 // the right edge of what only the keyboard shows
	s.Evaluate("document.querySelector('.skip')?.getBoundingClientRect().right ?? 0", &skip)
	if skip > 0 {
		t.Errorf("%s, with letters twice as large: the link past the navigation can be seen", name)
	}
	s.Evaluate("document.documentElement.style.fontSize = ''", new(string))
	s.Do(chromedp.EmulateViewport(1280, 800))
	headings := 0
	for _, node := range s.Accessible() {
		switch {
		case node.Role == "heading" && node.Is("level", "1"):
			headings++
		case node.Role == "image" && node.Name == "":
			t.Errorf("%s: a drawing without words", name)
		case node.Is("focusable", "true") && node.Role != "RootWebArea" && node.Name == "":
			t.Errorf("%s: no name: %s", name, node.Role)
		}
	}
	if headings != 1 {
		t.Errorf("%s: %d main headings", name, headings)
	}
	expected := regexp.MustCompile("status of (422|404|429)") // a form with a problem, no page, or an act over its budget
	for _, problem := range s.Problems() {
		if !expected.MatchString(problem) {
			t.Errorf("%s: the browser's console shows %s", name, problem)
		}
	}
}

// isInLine holds a wide page to what an eye sees at once: that a name stands on one line with what it is, the cells of a row on one
// line, and that no short word is broken.
func (s *screen) isInLine(t *testing.T, name string) {
	t.Helper()
	var faults []string
	s.Evaluate(`(() => {
		const marked = (element) => { // where its first text stands
			let first = element;
			while (first.firstElementChild && [...first.childNodes].find((n) => n.nodeType === 1 || n.data?.trim())?.nodeType === 1) first = first.firstElementChild;
			const mark = document.createElement("span");
			mark.style.display = "inline-block";
			first.prepend(mark);
			return {mark, element};
		};
		const faults = [];
		// All texts are found before any mark is set, and measured before any is taken away: a page is drawn anew after each change.
		const rows = [...document.querySelectorAll(".facts > div, tbody tr")]
			.map((row) => [...row.children].filter((e) => e.innerText.trim() !== "" && e.checkVisibility()))
			.map((texts) => texts.map(marked));
		for (const row of rows) {
			const lines = row.map(({mark}) => mark.getBoundingClientRect().bottom);
			if (Math.max(...lines) - Math.min(...lines) > 1) faults.push("out of line: " + lines.map((y, i) => y.toFixed(1) + " " + row[i].element.innerText.slice(0, 20)).join(", "));
		}
		for (const {mark} of rows.flat()) mark.remove();
		for (const word of document.querySelectorAll("tbody a, tbody .badge")) {
			const range = document.createRange();
			range.selectNodeContents(word);
			const text = word.innerText.trim();
			if (text.length <= 24 && !/[\s-]/.test(text) && range.getClientRects().length > 1) faults.push("broken: " + text);
		}
		return faults.slice(0, 5);
	})()`, &faults)
	for _, fault := range faults {
		t.Errorf("%s: %s", name, fault)
	}
}

func TestChromiumSignIn(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	s.looks(t, "home-quiet")
	s.at(t, usersPath)
	s.looks(t, "users")
	s.Submit(chromedp.Click(chromedp.CSS(".session button")))
	s.IsTitled("Sign in to the console · Console · Activity Connect")
	s.looks(t, "signed-out")
	s.Submit(chromedp.SendKeys(chromedp.CSS("#token"), "wrong"), chromedp.Click(chromedp.CSS("button.act")))
	s.looks(t, "wrong-token")
	s.Open(s.server.URL + Path + "/nothing")
	s.IsTitled("There is no such page · Console · Activity Connect")
	s.looks(t, "no-such-page")
}

func TestChromiumFind(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	s.ConnectNew(t, "Ride & <b>Club</b>")
	partner, _ := s.ConnectNew(t, strings.Repeat("Endless", 10)+"club")
	s.Submit(chromedp.SendKeys(chromedp.CSS("#find"), "club"), chromedp.Click(chromedp.CSS(".find button")))
	s.IsTitled("Search · Console · Activity Connect")
	s.looks(t, "found")
	request := uuid.New()
	s.DB.Exec(t, `insert into client_errors (client_id, authenticated, at, operation, status, code, reason, requests, request_ids)
		values ($1, true, connect_now(), 'requestToken', 400, 'invalid_grant', 'the code has expired', 1, $2)`, partner.ID, []uuid.UUID{request})
	s.at(t, toFind(request.String()))
	s.looks(t, "found-request")
	_ = s.Accounts.SendCode(t.Context(), account.CodeRequest{SignIn: uuid.New(), Email: "nobody@example.com"})
	ended, end := context.WithCancel(t.Context())
	end()
	s.Accounts.Run(ended) // it stores what happened
	s.at(t, toFind("nobody@example.com"))
	s.looks(t, "found-nobody")
}

func TestChromiumUser(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	partner, tokens := s.ConnectNew(t, "Ride & <b>Club</b>")
	s.DB.Webhook(t, partner.ID)
	s.ConnectNew(t, strings.Repeat("Endless", 14))
	for day, delta := range map[int]int{9: -2000, 8: 1_234_567} {
		s.putSteps(t, day, 12_345)
		note := "counted twice \u202e" + strings.Repeat("x", 200)
		if _, err := s.config.Activity.Adjust(t.Context(), activity.AdjustedSteps, activity.AdjustmentRecord{UserID: s.User.ID, Date: time.Date(2026, 3, day, 0, 0, 0, 0, time.UTC), Delta: delta, Note: note}); err != nil {
			t.Fatal(err)
		}
	}
	ride := activity.RideRecord{UserID: s.User.ID, SourceID: strings.Repeat("x", 128), Start: time.Date(2026, 3, 9, 10, 0, 0, 0, time.UTC), DistanceMeters: 4_000}
	if _, err := s.config.Activity.Put(t.Context(), activity.Batch{CyclingActivities: []activity.RideRecord{ride}}); err != nil {
		t.Fatal(err)
	}
	removed, err := s.config.Activity.Adjust(t.Context(), activity.AdjustedCycling, activity.AdjustmentRecord{UserID: s.User.ID, Date: time.Date(2026, 3, 9, 0, 0, 0, 0, time.UTC), Delta: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.config.Activity.RemoveAdjustment(t.Context(), activity.AdjustedCycling, s.User.ID, removed.ID); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_ = s.Accounts.SendCode(t.Context(), account.CodeRequest{SignIn: uuid.New(), Email: s.User.Email})
	}
	ended, end := context.WithCancel(t.Context())
	end()
	s.Accounts.Run(ended) // it stores what happened
	s.DB.Exec(t, `insert into sign_in_events select key, gen_random_uuid(), at - interval '1 minute', sign_in_id, 'refused', $1, 'address_in_network',
		connect_now(), null from sign_in_events limit 1`, "452 4.2.2 over quota "+strings.Repeat("x", 100))
	path := userPath(s.User.ID)
	s.at(t, path)
	s.looks(t, "user")
	s.at(t, path+"/lift-limits")
	s.looks(t, "lift-limits")
	s.at(t, path+"/change")
	s.looks(t, "change-user")
	s.Submit(chromedp.SetValue(chromedp.CSS("#f-timezone"), "Europe/Nowhere"), chromedp.Click(chromedp.CSS("button.act")))
	s.looks(t, "change-user-wrong")
	s.at(t, path+"/adjust")
	s.looks(t, "adjust")
	s.Submit(chromedp.SetValue(chromedp.CSS("#f-date"), "2026-03-09"), chromedp.SetValue(chromedp.CSS("#f-delta"), "-2000"),
		chromedp.SetValue(chromedp.CSS("#f-note"), "again"), chromedp.Click(chromedp.CSS("button.act")))
	s.IsTitled("10,345 → 8,345 steps on 2026-03-09 · Console · Activity Connect")
	s.looks(t, "adjust-confirm")
	s.Submit(chromedp.Click(chromedp.CSS("button.act")))
	s.looks(t, "adjusted")
	s.Submit(chromedp.Click(chromedp.CSS(`a[href$="/remove"]`)))
	s.looks(t, "remove-correction")

	if _, err := s.config.OAuth.Refresh(t.Context(), edgetest.Credentials(partner), tokens.RefreshToken); err != nil {
		t.Fatal(err)
	}
	if err := s.config.OAuth.Revoke(t.Context(), edgetest.Credentials(partner), tokens.RefreshToken); err != nil {
		t.Fatal(err)
	}
	s.DB.Exec(t, `insert into webhook_attempts (user_id, event_id, attempt, at, duration_ms, fault)
		select user_id, event_id, 1, connect_now(), 120, 'connection refused' from webhook_events`)
	s.DB.Exec(t, `insert into webhook_attempts (user_id, event_id, attempt, at, duration_ms, status)
		select user_id, event_id, 2, connect_now(), 120, 503 from webhook_events`)
	s.at(t, connectionPath(s.User.ID, partner.ID))
	s.looks(t, "connection")
	s.at(t, connectionPath(s.User.ID, partner.ID)+"/disconnect")
	s.looks(t, "disconnect")
	s.Submit(chromedp.Click(chromedp.CSS("button.grave")))
	s.looks(t, "disconnected")
	s.at(t, path)
	s.Submit(chromedp.Click(chromedp.CSS("a.grave")))
	s.looks(t, "delete-user")
	s.Submit(chromedp.Click(chromedp.CSS("button.grave")))
	s.IsTitled("Users · Console · Activity Connect")
	s.looks(t, "user-deleted")
}

// An act that is over its budget has a page of its own.
func TestChromiumOverBudget(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	partner := s.DB.Client(t)
	s.DB.Webhook(t, partner.ID)
	s.DB.Exec(t, `insert into audit_log (subject, actor, action, client_id)
		select $1, 'ada', 'webhook.tested', $1 from generate_series(1, 300)`, partner.ID)
	s.at(t, pathOf(partner.ID)+"/webhooks/test")
	if status := s.Submit(chromedp.Click(chromedp.CSS("main button.act"))); status != http.StatusTooManyRequests {
		t.Errorf("status %d", status)
	}
	s.IsTitled("Not again so soon · Console · Activity Connect")
	s.looks(t, "over-budget")
}
