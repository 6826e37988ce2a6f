//go:build citus

package cluster_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/edgetest"
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

// A node that is away takes only its own users away from the servers on other nodes.
func TestNodesAwayOnACluster(t *testing.T) {
	db := pgtest.New(t)
	f := newFleet(t, db)
	for _, url := range db.URLs[1:] {
		f.join(t, url)
	}
	other := f.DB.Client(t)
	var pages []*httptest.Server
	for _, a := range f.apps {
		server := httptest.NewTLSServer(a.Handler())
		t.Cleanup(server.Close)
		pages = append(pages, server)
	}

	const each = 4 // users at each server
	works := promised(t)
	for gone, url := range db.URLs {
		works := works[min(gone, 1)]
		count := &tally{tried: map[string]int{}, failed: map[string]int{}}
		type connected struct {
			pgtest.User
			tokens  oauth.Tokens
			code    string // of the other partner
			browser *edgetest.Visitor
		}
		var users []connected
		for len(users) < 2*each {
			user, tokens := f.NewConnection(t, f.Partner)
			if nodeOf(t, db, "users", user.ID) == gone || nodeOf(t, db, "grant_directory", tokens.GrantID) == gone {
				continue
			}
			code := edgetest.Code(t, f.App.OAuth, other, scope.All, user.ID)
			browser := edgetest.Visit(t, pages[(gone+1+len(users)%2)%len(db.URLs)], f.Base)
			browser.Get("/account/sign-in")
			browser.Post("/account/sign-in", "email", user.Email)
			browser.Post("/account/code", "code", f.Mail.Next(t).Code)
			users = append(users, connected{user, tokens, code, browser})
		}
		restart(t, url, func() {
			for n, user := range users {
				at := (gone + 1 + n%2) % len(db.URLs)
				a, front := f.apps[at], f.fronts[at]
				answer := httptest.NewRecorder()
				a.PrivateHandler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/readyz", nil))
				count.try(t, "ready", status(answer.Code, http.StatusOK))
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
				count.exchange(t, front, other, user.code)
				count.try(t, "account page", status(user.browser.Get("/account").StatusCode, http.StatusOK))
				got = front.Disconnect(t.Context(), t, f.Partner, user.tokens.GrantID)
				count.try(t, "disconnect", status(got.Status, http.StatusNoContent))
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

// exchange goes from the code to the revocation of the tokens.
func (c *tally) exchange(t *testing.T, front *e2e.Front, partner pgtest.Client, code string) {
	t.Helper()
	got := front.Token(t.Context(), t, partner, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {partner.CallbackURL}, "code_verifier": {edgetest.Verifier},
	})
	if !c.try(t, "exchange", status(got.Status, http.StatusOK)) {
		return
	}
	book := ledger{}
	book.take(got)
	for _, token := range []string{book.tokens.AccessToken, book.tokens.RefreshToken} {
		got := front.Post(t.Context(), t, partner, "/oauth/revoke", url.Values{"token": {token}})
		c.try(t, "revocation", status(got.Status, http.StatusOK))
	}
}

// nodeOf is the number of the node that has the rows of an id in a table.
func nodeOf(t *testing.T, db *pgtest.DB, table string, id uuid.UUID) int {
	t.Helper()
	port := pgtest.Value[int](t, db, `select nodeport from citus_shards
		where shardid = get_shard_id_for_distribution_column($1::text::regclass, $2::uuid)`, table, id)
	return slices.IndexFunc(db.URLs, func(url string) bool { return strings.Contains(url, fmt.Sprintf(":%d/", port)) })
}
