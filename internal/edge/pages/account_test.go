package pages

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/edgetest"
)

// Names "4" are section 4 of the decisions: "The account pages (/account) have their own sign-in by code, a session of 30
// minutes, list the connected companies with scopes and dates, and disconnect after a confirming page."

// enter signs the visitor in to the account pages.
func (v visitor) enter(email string) {
	v.T.Helper()
	code := v.ask("/account", email)
	if got := v.Location(v.Post("/account/code", "code", code)); got != "/account" {
		v.T.Fatalf("location = %q, want /account", got)
	}
}

// account is the list of a visitor who is signed in.
func (v visitor) account() *goquery.Document {
	v.T.Helper()
	answer := v.Get("/account")
	if answer.StatusCode != http.StatusOK || answer.Find("h1").Text() != "Your connections" {
		v.T.Fatalf("status %d, heading %q", answer.StatusCode, answer.Find("h1").Text())
	}
	return answer.Document
}

// said is a text without the line breaks of its template.
func said(s *goquery.Selection) string { return strings.Join(strings.Fields(s.Text()), " ") }

// disconnectPage is the page that disconnects a partner of the list.
func (f *fixture) disconnectPage() string {
	return "/account/connections/" + f.client.ID.String() + "/disconnect"
}

func TestAccountList_4(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	gone, lapsed, revoked := f.partner(t, "Away Inc"), f.partner(t, "Lapsing GmbH"), f.partner(t, "Revoking SA")

	lapsed.connect(t, scope.CyclingActivities|scope.CyclingDaily)
	f.DB.Clock.Advance(91 * 24 * time.Hour)
	if err := f.OAuth.Revoke(t.Context(), edgetest.Credentials(revoked.client), revoked.connect(t, scope.DailySteps).RefreshToken); err != nil {
		t.Fatal(err)
	}
	if err := f.OAuth.Disconnect(t.Context(), edgetest.Credentials(gone.client), gone.connect(t, scope.All).GrantID); err != nil {
		t.Fatal(err)
	}
	// Half past midnight of the next day in Berlin.
	f.DB.SetTime(time.Date(2027, 2, 20, 23, 30, 0, 0, time.UTC))
	tokens := f.connect(t, scope.All)
	f.DB.Clock.Advance(12 * time.Hour)
	stranger := f.partner(t, "Not Mine Ltd")
	stranger.User = f.newUser(t, "bea@example.com")
	stranger.connect(t, scope.All)

	v := f.visitor(t)
	v.enter(email)
	type row struct {
		Name, Site, State string
		Facts             []string
		Disconnect        string
	}
	list := func() (rows []row) {
		v.account().Find(".connections > li").Each(func(_ int, item *goquery.Selection) {
			r := row{Name: said(item.Find("h2")), State: said(item.Find(".halt strong"))}
			r.Site, _ = item.Find(".site a").Attr("href")
			item.Find("dl > div").Each(func(_ int, fact *goquery.Selection) {
				r.Facts = append(r.Facts, said(fact.Find("dt"))+": "+said(fact.Find("dd")))
			})
			r.Disconnect, _ = item.Find("a.other").Attr("href")
			rows = append(rows, r)
		})
		return rows
	}
	const (
		steps    = "Your steps"
		distance = "Your cycling distance"
		rides    = "Each of your rides"
	)
	want := []row{
		{"Lapsing GmbH", "", "Access has expired.", []string{
			"Had access to: " + distance + " " + rides, "Connected since: 21 November 2026",
			"Could see data from: 21 November 2026", "Last looked at your data: Never",
		}, lapsed.disconnectPage()},
		{"Revoking SA", "", "No access right now.", []string{
			"Had access to: " + steps, "Connected since: 20 February 2027",
			"Could see data from: 20 February 2027", "Last looked at your data: Never",
		}, revoked.disconnectPage()},
		{"Stride & Co", homepage, "", []string{
			"Can see: " + steps + " " + distance + " " + rides, "Connected since: 21 February 2027",
			"Can see data from: 21 February 2027", "Last looked at your data: Never",
		}, f.disconnectPage()},
	}
	if diff := cmp.Diff(want, list()); diff != "" {
		t.Errorf("connections (-want +got):\n%s", diff)
	}
	page := v.account()
	if got := page.Find(".signed-in .address").Text(); got != email {
		t.Errorf("signed in as %q", got)
	}

	f.DB.SetTime(time.Date(2027, 2, 20, 23, 31, 0, 0, time.UTC))
	f.Read(t, tokens, scope.CyclingDaily)
	want[2].Facts[3] = "Last looked at your data: " + distance + " today at about 00:00"
	if diff := cmp.Diff(want, list()); diff != "" {
		t.Errorf("after a read (-want +got):\n%s", diff)
	}
	for tag, want := range map[string]string{"en-US": "today at about 12:00 AM", "de": "heute gegen 00:00 Uhr", "fr": "aujourd’hui vers 00 h 00"} {
		v.Header.Set("Accept-Language", tag)
		if got := said(v.Get("/account").Find(".connections > li").Last().Find("dd").Last()); !strings.HasSuffix(got, want) {
			t.Errorf("after a read, in %s: %q, want %q", tag, got, want)
		}
	}
	v.Header.Del("Accept-Language")
	f.DB.SetTime(time.Date(2027, 2, 21, 22, 59, 0, 0, time.UTC)) // the last minute of the day in Berlin
	f.DB.Exec(t, "update connections set rides_read_at = $2 where client_id = $1", f.client.ID, time.Date(2027, 2, 19, 12, 0, 0, 0, time.UTC))
	f.DB.Exec(t, "update connections set last_read_at = $2 where client_id = $1", revoked.client.ID, time.Date(2027, 1, 31, 23, 10, 0, 0, time.UTC)) // by 1.0.0
	want[2].Facts[3] += rides + " 19 February 2027"
	want[1].Facts[3] = "Last looked at your data: Your data 1 February 2027"
	v.enter(email)
	if diff := cmp.Diff(want, list()); diff != "" {
		t.Errorf("at the end of the day (-want +got):\n%s", diff)
	}
	f.DB.Clock.Advance(2 * time.Minute)
	want[2].Facts[3] = "Last looked at your data: " + distance + " yesterday" + rides + " 19 February 2027"
	if diff := cmp.Diff(want, list()); diff != "" {
		t.Errorf("a day later (-want +got):\n%s", diff)
	}
}

func TestAccountWithoutConnections(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	v.enter(email)
	page := v.account()
	if got := said(page.Find("main")); !strings.Contains(got, "No company is connected to your account") {
		t.Errorf("the page says %q", got)
	}
	if page.Find(".connections, .news, .halt").Length() != 0 {
		t.Error("a list of nothing, or news of nothing")
	}
}

func TestDisconnect_4(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	kept := f.partner(t, "Kept GmbH")
	other := f.partner(t, "Not Mine Ltd")
	other.User = f.newUser(t, "bea@example.com")
	tokens, keptTokens, othersTokens := f.connect(t, scope.All), kept.connect(t, scope.All), other.connect(t, scope.All)
	works := func(access string) bool {
		_, err := f.OAuth.Authenticate(t.Context(), access)
		return err == nil
	}
	v := f.visitor(t)
	v.enter(email)

	// The page says what ends, and ends nothing.
	page := v.Get(f.disconnectPage()).Document
	if got := page.Find("h1").Text(); got != "Disconnect Stride & Co?" {
		t.Errorf("heading = %q", got)
	}
	for _, want := range []string{
		"Stride & Co can see nothing more, starting now", "it will only see data from that day on",
		"Stride & Co keeps what it has seen",
	} {
		if !strings.Contains(said(page.Find("main")), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	action, _ := page.Find("form[method=post]:has(button.act)").Attr("action")
	if action != f.disconnectPage()+"?user="+f.User.ID.String() {
		t.Errorf("the form goes to %q", action)
	}
	if !works(tokens.AccessToken) {
		t.Fatal("showing the page has disconnected")
	}

	const after = "/account?disconnected="
	for range 2 { // the form is sent again
		if got := v.Location(v.Post(action)); got != after+f.client.ID.String() {
			t.Errorf("location = %q", got)
		}
	}
	if works(tokens.AccessToken) {
		t.Error("the access token still works")
	}
	for query, news := range map[string]string{
		f.client.ID.String(): "Stride & Co is disconnected. It can see nothing more.", kept.client.ID.String(): "", uuid.NewString(): "", "x": "",
	} {
		page := v.Get(after + query)
		if got := page.Find("[role=status]").Text(); got != news {
			t.Errorf("the news are %q, want %q", got, news)
		}
		if got := page.Find(".connections h2").Text(); got != "Kept GmbH" {
			t.Errorf("connections: %q", got)
		}
	}
	if got := v.Location(v.Get(f.disconnectPage())); got != "/account" {
		t.Errorf("going back leads to %q", got)
	}

	// Nobody disconnects what is not theirs.
	v.isError(v.Post(other.disconnectPage()), http.StatusNotFound, headingMissing)
	v.isError(v.Post("/account/connections/"+uuid.NewString()+"/disconnect"), http.StatusNotFound, headingMissing)
	v.isError(v.Post("/account/connections/x/disconnect"), http.StatusNotFound, headingMissing)
	v.isError(v.Get("/account/connections/"+strings.ToUpper(kept.client.ID.String())+"/disconnect"), http.StatusNotFound, headingMissing)
	v.isError(v.Post(kept.disconnectPage(), "sure", "yes"), http.StatusBadRequest, headingForm)
	v.Header.Set("Sec-Fetch-Site", "cross-site")
	v.isError(v.Post(kept.disconnectPage()), http.StatusForbidden, headingForm)
	v.isError(v.Post("/account/sign-out"), http.StatusForbidden, headingForm)
	if !works(keptTokens.AccessToken) || !works(othersTokens.AccessToken) {
		t.Error("another connection was disconnected")
	}
}
