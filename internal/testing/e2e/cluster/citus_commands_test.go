//go:build citus

package cluster_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

// docs/scaling.md says how many commands an act sends to nodes, beside those that begin and end its transaction. All go to the user's node,
// so that an act does not depend on another node and commits as one PostgreSQL does.
func TestCommandsOfActsOnACluster(t *testing.T) {
	document, err := os.ReadFile("../../../../docs/scaling.md")
	if err != nil {
		t.Fatal(err)
	}
	db := pgtest.New(t)
	f := newFleet(t, db)
	var commands []string
	nodes := map[string]bool{} // that a command went to, beside the node that was asked
	spied, err := postgres.Open(t.Context(), db.URLs[0]+"&citus.log_remote_commands=on&citus.log_local_commands=on&client_min_messages=log",
		postgres.WithClock(db.Clock), postgres.WithMaxConns(1), func(config *postgres.Options) {
			config.ConnConfig.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) {
				_, command, issued := strings.Cut(notice.Message, "issuing ")
				if !issued {
					_, command, issued = strings.Cut(notice.Message, "executing the command locally: ")
				}
				if word, _, _ := strings.Cut(strings.TrimSpace(command), " "); issued && !slices.Contains([]string{
					"BEGIN", "COMMIT", "ROLLBACK", "PREPARE", "SAVEPOINT", "RELEASE",
				}, strings.TrimSuffix(word, ";")) {
					commands = append(commands, command)
					node, _, remote := strings.Cut(notice.Detail, " connectionId")
					if remote && !strings.Contains(command, "grant_directory") {
						nodes[node] = true
					}
				}
			}
		})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(spied.Close)
	service := oauth.New(spied, f.first.Keys, oauth.DefaultSettings)
	recorded := activity.New(spied, f.first.Keys, activity.Settings{CursorLifetime: time.Minute})
	f.DB.Webhook(t, f.Partner.ID)
	me, user := edgetest.Credentials(f.Partner), f.DB.User(t)
	connected := func() (tokens oauth.Tokens) {
		t.Helper()
		tokens, err := service.Exchange(t.Context(), me, oauth.ExchangeParams{
			Code: edgetest.Code(t, f.App.OAuth, f.Partner, scope.All, user.ID), RedirectURI: f.Partner.CallbackURL, CodeVerifier: edgetest.Verifier,
		})
		if err != nil {
			t.Fatal(err)
		}
		return tokens
	}
	tokens := connected()
	day := activity.Range{From: time.Now().Add(-24 * time.Hour), To: time.Now()}
	code := edgetest.Code(t, f.App.OAuth, f.Partner, scope.All, user.ID)
	for _, act := range []struct {
		name string
		do   func() error
	}{
		{"who reads, and whether they may", func() error {
			_, err := service.Authenticate(t.Context(), tokens.AccessToken)
			return err
		}},
		{"read of steps", func() error { _, err := recorded.DailySteps(t.Context(), user.ID, day); return err }},
		{"read of rides by day", func() error { _, err := recorded.CyclingDaily(t.Context(), user.ID, day); return err }},
		{"refresh", func() error {
			fresh, err := service.Refresh(t.Context(), me, tokens.RefreshToken)
			tokens.AccessToken, tokens.RefreshToken = fresh.AccessToken, fresh.RefreshToken
			return err
		}},
		{"exchange", func() (err error) {
			tokens, err = service.Exchange(t.Context(), me, oauth.ExchangeParams{Code: code, RedirectURI: f.Partner.CallbackURL, CodeVerifier: edgetest.Verifier})
			return err
		}},
		{"revocation of an access token", func() error { return service.Revoke(t.Context(), me, tokens.AccessToken) }},
		{"revocation of a refresh token", func() error { return service.Revoke(t.Context(), me, tokens.RefreshToken) }},
		{"disconnect", func() error {
			tokens = connected()
			commands = nil
			clear(nodes)
			return service.Disconnect(t.Context(), me, tokens.GrantID)
		}},
	} {
		for range 7 { // until plans are kept
			commands = nil
			clear(nodes)
			if act.name == "exchange" {
				code = edgetest.Code(t, f.App.OAuth, f.Partner, scope.All, user.ID)
			}
			if strings.HasPrefix(act.name, "revocation") {
				tokens = connected()
				commands = nil
				clear(nodes)
			}
			if err := act.do(); err != nil {
				t.Fatalf("%s: %v", act.name, err)
			}
		}
		row := regexp.MustCompile(`\| ` + act.name + ` \| (\d+) \|`).FindSubmatch(document)
		if row == nil {
			t.Errorf("docs/scaling.md does not say how many commands are sent for: %s", act.name)
		} else if most, _ := strconv.Atoi(string(row[1])); len(commands) > most {
			t.Errorf("%s: docs/scaling.md says %d commands", act.name, most)
		}
		if len(nodes) > 1 {
			t.Errorf("%s asks several nodes: %v", act.name, slices.Sorted(maps.Keys(nodes)))
		}
		t.Logf("%s: %d", act.name, len(commands))
	}
}
