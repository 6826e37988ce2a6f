package connect_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	connectsdk "connect.invalid/connect-go"
	"connect.invalid/connect-go/connect"
)

// roundTrip is a service without a network.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func respond(status int, body string) (*http.Response, error) {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// connected is a client with a connection whose first tokens are there; answer is what it gets from then on.
func connected(t *testing.T, store connect.Store, answer func(*http.Request) (*http.Response, error), sleep ...func(time.Duration)) *connect.Client {
	t.Helper()
	var asked atomic.Int32
	client, err := connect.New(connect.Config{
		BaseURL: "https://connect.example.com", ClientID: "id", ClientSecret: "svci_secret", CallbackURL: "https://partner.example/callback",
		Scopes: []connectsdk.Scope{connectsdk.ScopeDailyStepsRead}, Store: store,
		Sleep: func(_ context.Context, d time.Duration) error {
			for _, wait := range sleep {
				wait(d)
			}
			return nil
		},
		HTTPClient: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if asked.Add(1) == 1 {
				return respond(http.StatusOK, tokens)
			}
			return answer(r)
		})},
	})
	if err != nil {
		t.Fatal(err)
	}
	begun := client.Begin()
	if _, err := client.Finish(t.Context(), "ada", begun, url.Values{"state": {begun.State}, "code": {"svcc_x"}}); err != nil {
		t.Fatal(err)
	}
	return client
}

// Specification 5.4: what becomes of the refresh token after each answer, and how often it is sent.
func TestRefreshToken(t *testing.T) {
	t.Parallel()
	oauthError := func(status int, code string) func() (*http.Response, error) {
		return func() (*http.Response, error) {
			return respond(status, `{"error":"`+code+`","error_description":"A fixed text."}`)
		}
	}
	failure := func(err error) func() (*http.Response, error) {
		return func() (*http.Response, error) { return nil, err }
	}
	for name, test := range map[string]struct {
		answer func() (*http.Response, error)
		want   connect.State
		sent   int // 0: once
	}{
		"a new pair":           {func() (*http.Response, error) { return respond(200, tokens) }, connect.StateActive, 0},
		"could not be dialled": {failure(&net.OpError{Op: "dial", Err: errors.New("refused")}), connect.StateActive, 0},
		"invalid_client":       {oauthError(401, "invalid_client"), connect.StateActive, 0},
		"invalid_request":      {oauthError(400, "invalid_request"), connect.StateActive, 0},
		"invalid_grant":        {oauthError(400, "invalid_grant"), connect.StateEnded, 0},
		"server_error":         {oauthError(500, "server_error"), connect.StateUncertain, 0},
		"server_error, not attempted": {answer: func() (*http.Response, error) {
			answer, err := oauthError(500, "server_error")()
			answer.Header.Set("Connect-Outcome", "not-attempted")
			return answer, err
		}, want: connect.StateActive, sent: 4},
		"a gateway's answer":       {func() (*http.Response, error) { return respond(502, "<html>") }, connect.StateUncertain, 0},
		"somebody else's 400":      {func() (*http.Response, error) { return respond(400, "<html>") }, connect.StateUncertain, 0},
		"a redirect":               {func() (*http.Response, error) { return respond(307, "") }, connect.StateUncertain, 0},
		"a connection that breaks": {failure(&net.OpError{Op: "read", Err: errors.New("reset")}), connect.StateUncertain, 0},
		"a timeout":                {failure(context.DeadlineExceeded), connect.StateUncertain, 0},
		"an answer cut short":      {func() (*http.Response, error) { return respond(200, tokens[:40]) }, connect.StateUncertain, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sent := 0
			store := connect.NewMemoryStore()
			client := connected(t, store, func(*http.Request) (*http.Response, error) {
				sent++
				// It is noted before it is sent.
				if held, err := store.Load(t.Context(), "ada"); err != nil || held.State != connect.StateRefreshing {
					t.Errorf("while it is on its way: %v, %v", held, err)
				}
				return test.answer()
			})
			_, err := client.Refresh(t.Context(), "ada")
			held, loadErr := store.Load(t.Context(), "ada")
			if loadErr != nil || held.State != test.want || sent != max(test.sent, 1) {
				t.Errorf("the connection is %v (%v), after %d requests", held, loadErr, sent)
			}
			if kept := held.RefreshToken != ""; kept != (test.want == connect.StateActive) {
				t.Errorf("the refresh token is kept: %t", kept)
			}
			if must := errors.Is(err, connect.ErrReconnect); must != (test.want != connect.StateActive) {
				t.Errorf("the error is %v", err)
			}
			if why := (*connect.ReconnectError)(nil); test.want == connect.StateEnded &&
				(!errors.As(err, &why) || why.Cause == nil || why.Cause.Code != "invalid_grant") {
				t.Errorf("the cause is %+v", why)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error tells a secret: %v", err)
			}
		})
	}
}

// A refresh that was not attempted is sent again when Retry-After has passed. If a process ends meanwhile, the token is kept.
func TestRefreshIsSentAgainAfterItsPause(t *testing.T) {
	t.Parallel()
	store := connect.NewMemoryStore()
	sent := 0
	var slept []time.Duration
	client := connected(t, store, func(r *http.Request) (*http.Response, error) {
		if got := r.Header.Get("User-Agent"); got != "connect-go/"+connect.Version {
			t.Errorf("User-Agent %q", got)
		}
		if sent++; sent == 3 {
			return respond(http.StatusOK, strings.ReplaceAll(tokens, "svca_secret", "svca_next"))
		}
		answer, err := respond(http.StatusServiceUnavailable, "<html>") // of a proxy that reached no server
		answer.Header.Set("Connect-Outcome", "not-attempted")
		answer.Header.Set("Retry-After", "7")
		return answer, err
	}, func(d time.Duration) {
		slept = append(slept, d)
		if held, err := store.Load(t.Context(), "ada"); err != nil || held.State != connect.StateActive || held.RefreshToken == "" {
			t.Errorf("during the pause: %v, %v", held, err)
		}
	})
	connection, err := client.Refresh(t.Context(), "ada")
	if err != nil || connection.AccessToken != "svca_next" || sent != 3 || !slices.Equal(slept, []time.Duration{7 * time.Second, 7 * time.Second}) {
		t.Errorf("%v, %v after %d requests and pauses of %v", connection, err, sent, slept)
	}
}

// A caller who does not wait any longer does not cut the refresh off: that would cost the connection.
func TestRefreshOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	store := connect.NewMemoryStore()
	gone, arrived := make(chan struct{}), make(chan struct{})
	client := connected(t, store, func(r *http.Request) (*http.Response, error) {
		close(arrived)
		<-gone
		if err := r.Context().Err(); err != nil {
			return nil, err
		}
		return respond(http.StatusOK, strings.ReplaceAll(tokens, "svca_secret", "svca_next"))
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if _, err := client.Refresh(ctx, "ada"); !errors.Is(err, context.Canceled) {
		t.Errorf("the caller is told %v", err)
	}
	close(gone)
	client.Wait()
	if held, err := store.Load(t.Context(), "ada"); err != nil || held.AccessToken != "svca_next" {
		t.Errorf("what is stored: %v, %v", held, err)
	}
}

// Specification section 6: connection_version lets the client ignore stale webhooks; they are compared as numbers.
func TestEndedByAWebhook(t *testing.T) {
	t.Parallel()
	store := connect.NewMemoryStore()
	client := connected(t, store, func(*http.Request) (*http.Response, error) {
		return respond(http.StatusOK, strings.ReplaceAll(tokens, `"connection_version":"1"`, `"connection_version":"10"`))
	})
	if _, err := client.Refresh(t.Context(), "ada"); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		key     string
		version int64
		want    bool
		state   connect.State
	}{
		{"bob", 10, false, connect.StateActive},
		{"ada", 9, false, connect.StateActive},
		{"ada", 10, true, connect.StateEnded},
		{"ada", 10, false, connect.StateEnded},
	} {
		news, err := client.Ended(t.Context(), test.key, test.version)
		held, _ := store.Load(t.Context(), "ada")
		if err != nil || news != test.want || held.State != test.state || (held.RefreshToken != "") != (test.state == connect.StateActive) {
			t.Errorf("%s, version %d: news %t (%v), then %v", test.key, test.version, news, err, held)
		}
	}
}

// A browser that leaves while its code is exchanged does not waste it: it works once.
func TestFinishOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	store := connect.NewMemoryStore()
	ctx, cancel := context.WithCancel(t.Context())
	client := connected(t, store, func(r *http.Request) (*http.Response, error) {
		cancel()
		if err := r.Context().Err(); err != nil {
			return nil, err
		}
		return respond(http.StatusOK, strings.ReplaceAll(tokens, "svca_secret", "svca_next"))
	})
	begun := client.Begin()
	_, err := client.Finish(ctx, "ada", begun, url.Values{"state": {begun.State}, "code": {"svcc_y"}})
	if held, loadErr := store.Load(t.Context(), "ada"); err != nil || loadErr != nil || held.AccessToken != "svca_next" {
		t.Errorf("%v; what is stored: %v, %v", err, held, loadErr)
	}
}

// A store that fails when the new tokens are there is asked again; they are the only copy.
func TestNewTokensAreStoredStubbornly(t *testing.T) {
	t.Parallel()
	store := &failingStore{MemoryStore: connect.NewMemoryStore()}
	client := connected(t, store, func(*http.Request) (*http.Response, error) {
		store.failures = 2
		return respond(http.StatusOK, strings.ReplaceAll(tokens, "svca_secret", "svca_next"))
	})
	if connection, err := client.Refresh(t.Context(), "ada"); err != nil || connection.AccessToken != "svca_next" {
		t.Errorf("%v, %v", connection, err)
	}
}

type failingStore struct {
	*connect.MemoryStore
	failures int
}

func (s *failingStore) Lock(ctx context.Context, key string) (connect.Lock, error) {
	lock, err := s.MemoryStore.Lock(ctx, key)
	return failingLock{lock, s}, err
}

type failingLock struct {
	connect.Lock
	store *failingStore
}

func (l failingLock) Save(ctx context.Context, c connect.Connection) error {
	if l.store.failures > 0 {
		l.store.failures--
		return errors.New("the disk is full")
	}
	return l.Lock.Save(ctx, c)
}

// Specification 5.5: no token in a log.
func TestConnectionHidesItsTokens(t *testing.T) {
	t.Parallel()
	c := connect.Connection{Version: "3", AccessToken: "svca_secret", RefreshToken: "svcr2_secret"}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("", "connection", c)
	for _, text := range []string{fmt.Sprint(c), fmt.Sprintf("%+v %#v %s", c, &c, c), log.String()} {
		if strings.Contains(text, "secret") || !strings.Contains(text, "3") {
			t.Error(text)
		}
	}
}

func TestNewChecksTheConfiguration(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*connect.Config){
		"plain HTTP":      func(c *connect.Config) { c.BaseURL = "http://connect.example.com" },
		"a path":          func(c *connect.Config) { c.BaseURL += "/" },
		"no callback":     func(c *connect.Config) { c.CallbackURL = "" },
		"no secret":       func(c *connect.Config) { c.ClientSecret = "" },
		"no scope":        func(c *connect.Config) { c.Scopes = nil },
		"a strange scope": func(c *connect.Config) { c.Scopes = []connectsdk.Scope{"sleep:read"} },
	} {
		config := connect.Config{
			BaseURL: "https://connect.example.com", ClientID: "id", ClientSecret: "svci_secret", CallbackURL: "https://partner.example/callback",
			Scopes: []connectsdk.Scope{connectsdk.ScopeDailyStepsRead},
		}
		if _, err := connect.New(config); err != nil {
			t.Fatal(err)
		}
		change(&config)
		if _, err := connect.New(config); err == nil || strings.Contains(err.Error(), "svci_") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
