//go:build timed

package standstill_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	"connect-svc/internal/testing/wait"
)

// The limits that are promised (decisions, section 5).
const (
	readLimit  = 2 * time.Second
	actLimit   = 5 * time.Second
	batchLimit = 30 * time.Second
)

// ask is a request with all that it needs to succeed, and how it is answered.
type ask struct {
	covers      string // the id of an operation, or the method and the pattern of a page
	contract    contract
	client      *http.Client
	method, url string
	header      http.Header
	body        string
	limit       time.Duration
	well, fault int // the status when all is well, and while the database says nothing
}

// contract is one of the documents, as package contracttest holds answers against it; nil: there is none.
type contract func(testing.TB, http.RoundTripper) http.RoundTripper

// reply is an answer that came to its end.
type reply struct {
	status int
	header http.Header
	body   string
	took   time.Duration // from the request, which had its connection, to the last byte
}

// send returns an error where the answer is not whole.
func (a ask) send(t *testing.T) (reply, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*a.limit)
	defer cancel()
	var began time.Time
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { began = time.Now() }})
	request, err := http.NewRequestWithContext(ctx, a.method, a.url, strings.NewReader(a.body))
	if err != nil {
		return reply{}, err
	}
	if a.header != nil {
		request.Header = a.header.Clone()
	}
	answer, err := a.client.Do(request)
	if err != nil {
		return reply{took: time.Since(began)}, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return reply{answer.StatusCode, answer.Header, string(body), time.Since(began)}, err
}

// documented reports to t if the answer is not as the document says. Its time is not measured.
func (a ask) documented(t *testing.T, got reply) {
	t.Helper()
	if a.contract == nil {
		return
	}
	request, err := http.NewRequest(a.method, a.url, nil)
	if err != nil {
		t.Error(err)
		return
	}
	answer, err := a.contract(t, again(got)).RoundTrip(request)
	if err != nil {
		t.Error(err)
		return
	}
	_ = answer.Body.Close()
}

// again gives an answer once more.
type again reply

// RoundTrip implements [http.RoundTripper].
func (r again) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: r.status, Header: r.header, Body: io.NopCloser(strings.NewReader(r.body))}, nil
}

// asked is a request with its answer.
type asked struct {
	ask
	reply
	err   error
	stall time.Duration // for which the machine gave this process no turn meanwhile
}

type answers []asked

// together asks everything at one time.
func together(t *testing.T, asks []ask) answers {
	all := make(answers, len(asks))
	lost := wait.Stalls()
	var under sync.WaitGroup
	for i, a := range asks {
		under.Go(func() {
			got, err := a.send(t)
			all[i] = asked{ask: a, reply: got, err: err}
		})
	}
	under.Wait()
	stall := lost()
	for i := range all {
		all[i].stall = stall
	}
	return all
}

// inTurn asks one after the other.
func inTurn(t *testing.T, asks []ask) (all answers) {
	for _, a := range asks {
		all = append(all, together(t, []ask{a})...)
	}
	return all
}

func (all answers) areFaults(t *testing.T, when string) {
	all.check(t, when, func(a ask) int { return a.fault })
}

func (all answers) areRight(t *testing.T, when string) {
	all.check(t, when, func(a ask) int { return a.well })
}

// check wants each answer to be whole, to be the one that is wanted, and to have come in time.
func (all answers) check(t *testing.T, when string, want func(ask) int) {
	slowest := map[time.Duration]time.Duration{}
	for _, a := range all {
		what := when + ": " + a.covers
		slowest[a.limit] = max(slowest[a.limit], a.took)
		switch {
		case a.err != nil:
			t.Errorf("%s: no whole answer after %s: %v", what, a.took, a.err)
			continue
		case a.status != want(a.ask):
			t.Errorf("%s: %d, want %d", what, a.status, want(a.ask))
		case strings.HasPrefix(a.reply.header.Get("Content-Type"), "text/html") && !strings.Contains(a.reply.body, "</html>"):
			t.Errorf("%s: half a page", what)
		}
		wait.InTime(t, what, a.took, a.limit, a.stall)
		a.documented(t, a.reply)
	}
	t.Logf("%s: %d answers, the slowest by limit: %v, without a turn for %s", when, len(all), slowest, all[0].stall)
}
