//go:build citus

package cluster_test

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connect-svc/internal/app"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/mailtest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// tally counts the attempts at each step while a node is away.
type tally struct {
	steps         []string
	tried, failed map[string]int
}

// try counts a step. It reports whether the step succeeded.
func (c *tally) try(t *testing.T, step string, err error) bool {
	if c.tried[step]++; c.tried[step] == 1 {
		c.steps = append(c.steps, step)
	}
	if err != nil {
		if c.failed[step]++; c.failed[step] == 1 {
			t.Logf("%s: %v", step, err)
		}
	}
	return err == nil
}

// status is the error for an answer that is not the expected one.
func status(got, want int) error {
	if got != want {
		return fmt.Errorf("status %d", got)
	}
	return nil
}

// A node that is away takes only its own users away, and what docs/scaling.md lists.
func TestNodesAwayOnACluster(t *testing.T) {
	db := pgtest.New(t)
	var mu sync.Mutex
	events := ""
	sent := func() string { mu.Lock(); defer mu.Unlock(); return events }
	receiver := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		events += string(body)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(receiver.Close)
	f := newFleet(t, db, func(config *app.Config) {
		config.Operators = edgetest.Operators(t)
		config.Webhooks.AllowedNetworks = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		config.Webhooks.RootCAs = x509.NewCertPool()
		config.Webhooks.RootCAs.AddCert(receiver.Certificate())
	})
	for _, url := range db.URLs[1:] {
		f.join(t, url)
	}
	if _, err := f.App.Webhooks.SetEndpoint(t.Context(), f.Partner.ID, receiver.URL); err != nil {
		t.Fatal(err)
	}
	other, third := f.DB.Client(t), f.DB.Client(t)
	var pages []*httptest.Server
	running, stop := context.WithCancel(context.Background())
	var work sync.WaitGroup
	t.Cleanup(func() { stop(); work.Wait() })
	for n, a := range f.apps {
		server := httptest.NewTLSServer(a.Handler())
		t.Cleanup(server.Close)
		pages = append(pages, server)
		if n > 0 { // the first one's are sent already
			work.Go(func() { a.Accounts.Run(running) })
		}
		work.Go(func() { a.Webhooks.Run(running) })
	}

	const each = 4 // users at each server
	works := promised(t)
	for gone, url := range db.URLs {
		works := works[min(gone, 1)]
		count := &tally{tried: map[string]int{}, failed: map[string]int{}}
		type connected struct {
			pgtest.User
			tokens oauth.Tokens
			code   string // of the other partner
		}
		var users []connected
		for len(users) < 2*each {
			if user, tokens := f.NewConnection(t, f.Partner); nodeOf(t, db, user) != gone {
				users = append(users, connected{user, tokens, edgetest.Code(t, f.App.OAuth, other, scope.All, user.ID)})
			}
		}
		restart(t, url, func() {
			for n, user := range users {
				at := (gone + 1 + n%2) % len(db.URLs)
				a, front := f.apps[at], f.fronts[at]
				count.try(t, "ready", status(private(t, a, http.MethodGet, "/readyz", nil, nil).Code, http.StatusOK))
				got := front.Refresh(t.Context(), t, f.Partner, user.tokens.RefreshToken)
				if count.try(t, "refresh", status(got.Status, http.StatusOK)) {
					(&ledger{tokens: user.tokens}).take(got)
				}
				count.try(t, "read", status(front.Read(t.Context(), t, user.tokens).Status, http.StatusOK))
				limited, end := context.WithTimeout(t.Context(), wait.Limit)
				_, err := a.Activity.Put(limited, activity.Batch{DailySteps: []activity.StepsRecord{
					{UserID: user.ID, Date: time.Now().UTC().Truncate(24 * time.Hour), Steps: n},
				}})
				end()
				count.try(t, "write of activity", err)
				v := visit{edgetest.Visit(t, pages[at], f.Base), count, f.Mail, user.User}
				v.connect(t, third)
				v.exchange(t, front, other, user.code)
				if _, in := v.signIn(t, "account: sign-in", "/account", nil); in {
					count.try(t, "account: page", status(v.Get("/account").StatusCode, http.StatusOK))
				}
				got = front.Disconnect(t.Context(), t, f.Partner, user.tokens.GrantID)
				count.try(t, "disconnect", status(got.Status, http.StatusNoContent))
				count.console(t, a, user.User)
			}
			end := time.Now().Add(wait.Limit)
			for _, user := range users {
				grant := user.tokens.GrantID.String()
				var err error
				for ; !strings.Contains(sent(), grant); <-time.After(10 * time.Millisecond) {
					if !works["webhook"] || time.Now().After(end) {
						err = fmt.Errorf("no event arrives")
						break
					}
				}
				count.try(t, "webhook", err)
			}
		})
		for _, url := range db.URLs { // releases the locks that the crash left
			if _, err := session(t, url).Exec(t.Context(), "select recover_prepared_transactions()"); err != nil {
				t.Error(err)
			}
		}
		t.Logf("without node %d, of users on other nodes:", gone)
		for _, step := range count.steps {
			t.Logf("  %-24s failed %d of %d", step, count.failed[step], count.tried[step])
			if _, listed := works[step]; !listed {
				t.Errorf("docs/scaling.md does not say whether this works: %s", step)
			}
			if count.failed[step] > 0 && works[step] {
				t.Errorf("without node %d: %s fails", gone, step)
			}
		}
	}
}

// promised reads in docs/scaling.md which steps work without the coordinator, and which without another node.
func promised(t *testing.T) [2]map[string]bool {
	t.Helper()
	document, err := os.ReadFile("../../../../docs/scaling.md")
	if err != nil {
		t.Fatal(err)
	}
	works := [2]map[string]bool{{}, {}}
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \| (works|may fail)[^|]* \| (works|may fail)[^|]* \|$`).FindAllStringSubmatch(string(document), -1) {
		works[0][row[1]], works[1][row[1]] = row[2] == "works", row[3] == "works"
	}
	return works
}

// connect goes from the authorization request to the callback.
func (v visit) connect(t *testing.T, partner pgtest.Client) {
	t.Helper()
	base, err := v.to(v.Get("/oauth/authorize?" + edgetest.AuthorizationQuery(partner, scope.All).Encode()))
	base, in := v.signIn(t, "sign-in", strings.TrimSuffix(base, "/sign-in"), err)
	if !in {
		return
	}
	shown := v.Get(base + "/consent")
	_, err = v.to(v.Post(base+"/consent", "decision", "allow"))
	v.count.try(t, "consent", cmp.Or(status(shown.StatusCode, http.StatusOK), err))
}

// exchange goes from the code to the revocation of the tokens.
func (v visit) exchange(t *testing.T, front *e2e.Front, partner pgtest.Client, code string) {
	t.Helper()
	got := front.Token(t.Context(), t, partner, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {partner.CallbackURL}, "code_verifier": {edgetest.Verifier},
	})
	if !v.count.try(t, "exchange", status(got.Status, http.StatusOK)) {
		return
	}
	book := ledger{}
	book.take(got)
	for _, token := range []string{book.tokens.AccessToken, book.tokens.RefreshToken} {
		got := front.Post(t.Context(), t, partner, "/oauth/revoke", url.Values{"token": {token}})
		v.count.try(t, "revocation", status(got.Status, http.StatusOK))
	}
}

// visit is a user's browser.
type visit struct {
	*edgetest.Visitor
	count *tally
	mail  *mailtest.Server
	user  pgtest.User
}

// to is where a page sends the browser.
func (v visit) to(p edgetest.Page) (string, error) {
	return p.Header.Get("Location"), status(p.StatusCode, http.StatusSeeOther)
}

// signIn signs in by a code at the pages under base, and returns where it went on, which is elsewhere if a node is away.
func (v visit) signIn(t *testing.T, step, base string, err error) (string, bool) {
	t.Helper()
	if err == nil {
		err = status(v.Get(base+"/sign-in").StatusCode, http.StatusOK)
	}
	if err == nil {
		base, err = v.to(v.Post(base+"/sign-in", "email", v.user.Email))
		base = strings.TrimSuffix(base, "/code")
	}
	if err == nil {
		err = status(v.Get(base+"/code").StatusCode, http.StatusOK)
	}
	if err == nil {
		_, err = v.to(v.Post(base+"/code", "code", v.mail.Next(t).Code))
	}
	return base, v.count.try(t, step, err)
}

// private asks the private listener.
func private(t *testing.T, a *app.App, method, target string, session []*http.Cookie, form url.Values) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1"+target, strings.NewReader(form.Encode()))
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, cookie := range session {
		request.AddCookie(cookie)
	}
	answer := httptest.NewRecorder()
	a.PrivateHandler().ServeHTTP(answer, request)
	return answer
}

// console signs an operator in, who looks at a user.
func (c *tally) console(t *testing.T, a *app.App, user pgtest.User) {
	t.Helper()
	entered := private(t, a, http.MethodPost, "/console/sign-in", nil, url.Values{"token": {edgetest.UnnamedToken}})
	if c.try(t, "console: sign-in", status(entered.Code, http.StatusSeeOther)) {
		shown := private(t, a, http.MethodGet, "/console/users/"+user.ID.String(), entered.Result().Cookies(), nil)
		c.try(t, "console: a user", status(shown.Code, http.StatusOK))
	}
}

// nodeOf is the number of the node that has a user's rows.
func nodeOf(t *testing.T, db *pgtest.DB, user pgtest.User) int {
	t.Helper()
	port := pgtest.Value[int](t, db, `select nodeport from citus_shards
		where shardid = get_shard_id_for_distribution_column('users', $1::uuid)`, user.ID)
	return slices.IndexFunc(db.URLs, func(url string) bool { return strings.Contains(url, fmt.Sprintf(":%d/", port)) })
}
