package partner

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/ratelimit"
	"connect-svc/internal/foundation/scope"
)

func TestRate_8(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	slow := f.newClient(t, client.Policy{RequestsPerMinute: 1, Burst: 3, ConcurrentReads: 1})
	tokens := f.Connect(t, slow, scope.All)
	request := func(endpoint string, changes ...func(*outgoing)) outgoing {
		out := read(endpoint, tokens.GrantID, tokens.AccessToken, today)
		all(changes...)(&out)
		return out
	}
	for _, step := range []struct {
		name      string
		request   outgoing
		status    int
		code      string
		remaining string
	}{
		{"one", request("daily-activity"), 200, "", "2"},
		{"malformed is not counted", request("daily-activity", query("&a=b")), 400, "invalid_request", ""},
		{"all endpoints together", request("cycling-daily"), 200, "", "1"},
		{"dates are counted", request("cycling-activities", replace("to="+today, "to=x")), 400, "invalid_date_range", "0"},
		{"nothing left", request("cycling-activities"), 429, "rate_limited", "0"},
		{"for none of them", request("cycling-daily"), 429, "rate_limited", "0"},
		{"order: shape before rate", request("daily-activity", query("&a=b")), 400, "invalid_request", ""},
		{"order: rate before dates", request("daily-activity", replace("to="+today, "to=x")), 429, "rate_limited", "0"},
	} {
		got := f.send(t, step.request)
		got.Check(t, step.status, step.code)
		if remaining := got.Header.Get("RateLimit-Remaining"); remaining != step.remaining {
			t.Errorf("%s: RateLimit-Remaining is %q, want %q", step.name, remaining, step.remaining)
		}
		if step.remaining != "" && got.Header.Get("RateLimit-Limit") != "1" {
			t.Errorf("%s: RateLimit-Limit is %q", step.name, got.Header.Get("RateLimit-Limit"))
		}
		if after, reset := got.Header.Get("Retry-After"), got.Header.Get("RateLimit-Reset"); step.status == 429 && after != reset {
			t.Errorf("%s: Retry-After is %q, RateLimit-Reset %q", step.name, after, reset)
		}
	}
	// Only reads are counted and limited.
	f.send(t, refreshForm(slow, "svcr2_unknown")).Check(t, 400, "invalid_grant")
	f.DB.Clock.Advance(time.Minute)
	f.send(t, request("daily-activity")).Check(t, 200, "")
}

func TestConcurrency_8(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	policy := client.Policy{RequestsPerMinute: 1000, Burst: 1000, ConcurrentReads: 1}
	single := f.newClient(t, policy)
	tokens := f.Connect(t, single, scope.All)
	request := steps(tokens.GrantID, tokens.AccessToken)

	held, err := f.config.Limiter.Admit(t.Context(), single.ID, ratelimit.Policy(policy), f.DB.Now())
	if err != nil {
		t.Fatal(err)
	}
	got := f.send(t, request)
	got.Check(t, 429, "rate_limited")
	if after := got.Header.Get("Retry-After"); after != "1" {
		t.Errorf("Retry-After is %q, want 1", after)
	}
	if err := held.Release(t.Context()); err != nil {
		t.Fatal(err)
	}

	// The lease has ended when the answer begins, so that whoever saw it never meets a lease of his own.
	for _, test := range []struct {
		change func(*outgoing)
		status int
	}{
		{query(""), 200},
		{replace("to="+today, "to=x"), 400},
		{replace("to="+today, "to=2026-03-12"), 400},
	} {
		out := request
		test.change(&out)
		asked := httptest.NewRequest(http.MethodGet, out.Target, nil)
		asked.Header = out.Header
		var again ratelimit.Decision
		answer := &probe{ResponseRecorder: httptest.NewRecorder(), begins: func() {
			if again, err = f.config.Limiter.Admit(t.Context(), single.ID, ratelimit.Policy(policy), f.DB.Now()); err != nil {
				t.Fatal(err)
			}
		}}
		f.handler.ServeHTTP(answer, asked)
		if answer.Code != test.status || !again.Allowed {
			t.Errorf("answer %d with the lease released: %t", answer.Code, again.Allowed)
		}
		if err := again.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// The lease of a read that panics ends with it, too.
func TestConcurrencyAfterAPanic_8(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(f *fixture) { f.config.Activity = nil })
	policy := client.Policy{RequestsPerMinute: 1000, Burst: 1000, ConcurrentReads: 1}
	single := f.newClient(t, policy)
	tokens := f.Connect(t, single, scope.All)
	f.send(t, steps(tokens.GrantID, tokens.AccessToken)).Check(t, 503, "data_unavailable")
	again, err := f.config.Limiter.Admit(t.Context(), single.ID, ratelimit.Policy(policy), f.DB.Now())
	if err != nil || !again.Allowed {
		t.Errorf("the next read is refused: %s, %v", again.Reason, err)
	}
}

// probe is a response writer that says when the answer begins.
type probe struct {
	*httptest.ResponseRecorder
	begins func()
}

func (p *probe) WriteHeader(status int) {
	p.begins()
	p.ResponseRecorder.WriteHeader(status)
}
