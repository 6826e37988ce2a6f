package observability_test

import (
	"errors"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"golang.org/x/oauth2"

	"connect-svc/internal/app"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// The metrics tell what happened, and hold no user, client, credential or address.
func TestMetrics(t *testing.T) {
	t.Parallel()
	e := e2e.New(t, func(c *app.Config) { c.Version, c.Commit = "v1.2.3", "abc" })
	config, token := e.Connect(t)
	refresh := func(token *oauth2.Token) (*oauth2.Token, error) {
		return config.TokenSource(e.Client(t), &oauth2.Token{RefreshToken: token.RefreshToken}).Token()
	}
	e.DB.Exec(t, "update clients set burst = 1, requests_per_minute = 1")
	if got := []int{e.Read(t, token), e.Read(t, token)}; got[0] != 200 || got[1] != 429 {
		t.Fatalf("two reads of a burst of one answer %v", got)
	}
	if _, err := refresh(token); err != nil {
		t.Fatal(e2e.CodeOf(err))
	}
	for range 2 { // the first revokes the connection, the second finds it revoked
		if _, err := refresh(token); e2e.CodeOf(err) != "invalid_grant" {
			t.Fatal(e2e.CodeOf(err))
		}
	}
	_, late := e.Connect(t)
	e.DB.Clock.Advance(oauth.DefaultSettings.RefreshInactivity + time.Second)
	if _, err := refresh(late); e2e.CodeOf(err) != "invalid_grant" {
		t.Fatal(e2e.CodeOf(err))
	}
	signIn := uuid.New()
	if err := e.App.Accounts.SendCode(t.Context(), account.CodeRequest{SignIn: signIn, Email: "nobody@users.example"}); err != nil {
		t.Fatal(err)
	}
	for range 7 {
		_, err := e.App.Accounts.VerifyCode(t.Context(), signIn, "000000")
		if wrong := new(account.WrongCodeError); !errors.As(err, &wrong) && !errors.Is(err, account.ErrCodeSpent) {
			t.Fatal(err)
		}
	}

	wait.Until(t, "every email has left", func() bool {
		return pgtest.Value[int64](t, e.DB, "select count(*) from code_emails") == 0
	})
	e.StopEmails()
	text := e.Private(t, "/metrics")
	for _, want := range []string{
		`connect_build_info{commit="abc",go_version="` + runtime.Version() + `",version="v1.2.3"} 1`,
		`connect_requests_total{operation="readDailyActivity",status="200"} 1`,
		`connect_requests_total{operation="readDailyActivity",status="429"} 1`,
		`connect_requests_total{operation="requestToken",status="400"} 3`,
		`connect_requests_total{operation="/authorize/{request}/consent",status="303"} 2`,
		`connect_request_duration_seconds_bucket{operation="requestToken",status="200",le="+Inf"} 3`,
		`connect_limiter_decisions_total{decision="admitted"} 1`,
		`connect_limiter_decisions_total{decision="rate"} 1`,
		`connect_limiter_decisions_total{decision="concurrency"} 0`,
		`connect_refreshes_total{outcome="rotated"} 1`,
		`connect_refreshes_total{outcome="replayed"} 1`,
		`connect_refreshes_total{outcome="refused"} 1`,
		`connect_refreshes_total{outcome="lapsed"} 1`,
		`connect_sign_in_codes_total{outcome="sent"} 3`,
		`connect_sign_in_codes_total{outcome="accepted"} 2`,
		`connect_sign_in_codes_total{outcome="rejected"} 5`,
		`connect_sign_in_codes_total{outcome="locked"} 2`,
		`connect_emails_total{outcome="sent"} 2`,
		`connect_emails_waiting 0`,
		`connect_emails_oldest_waiting_seconds 0`,
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	// How many are in each state depends on what the pool does at this moment.
	for _, state := range []string{"connecting", "idle", "in_use"} {
		if !regexp.MustCompile(`(?m)^connect_database_connections\{state="` + state + `"\} \d+$`).MatchString(text) {
			t.Errorf("no connections that are %s", state)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
	identifying := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-|@|sv(ci|cc|ca|cr2)_|127\.0\.0\.1`)
	if found := identifying.FindString(text); found != "" {
		t.Errorf("the metrics hold %q", found)
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
}
