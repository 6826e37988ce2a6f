package partner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

const (
	mostRecorded  = 64 << 10 // bytes of a body
	mostShown     = 6 << 10  // bytes of a request or a response
	mostExchanges = 12       // of one step
)

// exchange is one request and its response as on the page. They are masked before they are stored, and never logged.
type exchange struct {
	Summary           string // such as POST /oauth/token → 200
	Request, Response string
	Status            int // 0: there was no response
}

func newExchange(r *http.Request, body string) exchange {
	target := maskTarget(r.URL)
	path, _, _ := strings.Cut(target, "\n")
	return exchange{Summary: clip(r.Method + " " + path), Request: clip(r.Method + " " + target + maskHeaders(r.Header) + body)}
}

func (e *exchange) respond(status int, header http.Header, body string) {
	e.Status = status
	e.Summary += fmt.Sprintf(" → %d", status)
	e.Response = clip(fmt.Sprintf("%d %s", status, http.StatusText(status)) + maskHeaders(header) + body)
}

func clip(text string) string {
	if len(text) > mostShown {
		return strings.ToValidUTF8(text[:mostShown], "") + " … (and so on)"
	}
	return text
}

// navigation returns the exchange of a page that the member's browser requested.
func navigation(address, response string) exchange {
	u, err := url.Parse(address)
	if err != nil {
		u = new(url.URL)
	}
	e := newExchange(&http.Request{Method: http.MethodGet, URL: u}, "")
	e.Summary, e.Response = "Your browser: "+e.Summary, response
	return e
}

type trace struct {
	mu        sync.Mutex
	exchanges []exchange
}

type traceKey struct{}

// traced returns a context whose requests are recorded.
func traced(ctx context.Context) (context.Context, *trace) {
	t := new(trace)
	return context.WithValue(ctx, traceKey{}, t), t
}

func (t *trace) add(e exchange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.exchanges) < mostExchanges {
		t.exchanges = append(t.exchanges, e)
	}
}

// take returns the exchanges so far. An abandoned refresh may add to them later; those are not shown.
func (t *trace) take() []exchange {
	t.mu.Lock()
	defer t.mu.Unlock()
	taken := t.exchanges
	t.exchanges = nil
	return taken
}

// recorder records the requests of traced contexts, without the SDK's knowledge.
type recorder struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (r recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	t, found := request.Context().Value(traceKey{}).(*trace)
	if !found {
		return r.next.RoundTrip(request)
	}
	form := ""
	if request.GetBody != nil {
		if body, err := request.GetBody(); err == nil {
			form = "\n\n" + maskFields(string(peek(&body)), "\n")
		}
	}
	e := newExchange(request, form)
	response, err := r.next.RoundTrip(request)
	if err != nil {
		e.Summary += " → no answer"
		e.Response = "(none) " + whyNone(err)
	} else {
		e.respond(response.StatusCode, response.Header, maskBody(peek(&response.Body)))
	}
	t.add(e)
	return response, err
}

// peek returns the recorded part of a body, and replaces the body by one that can still be read completely.
func peek(body *io.ReadCloser) []byte {
	begun, _ := io.ReadAll(io.LimitReader(*body, mostRecorded+1)) // the next read returns the error again
	*body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(begun), *body), *body}
	return begun
}

// whyNone returns the reason why there was no response, without the addresses of requests.
func whyNone(err error) string {
	dial := new(net.OpError)
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "It took too long."
	case errors.As(err, &dial) && dial.Op == "dial":
		return "The connection was not made: nobody listens there."
	default:
		return "The connection broke."
	}
}
