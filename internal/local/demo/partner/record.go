package partner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

const (
	mostRecorded  = 16 << 10 // bytes of a body
	mostShown     = 6 << 10  // bytes of a request or an answer
	mostExchanges = 12       // of one step
)

// exchange is one request and its answer as the page shows them: masked before they are kept, and never logged.
type exchange struct {
	Summary         string // such as POST /oauth/token → 200
	Request, Answer string
	Status          int // 0: none came
}

func (e exchange) clipped() exchange {
	for _, text := range []*string{&e.Summary, &e.Request, &e.Answer} {
		if len(*text) > mostShown {
			*text = strings.ToValidUTF8((*text)[:mostShown], "") + " … (and so on)"
		}
	}
	return e
}

// trace is what was sent for one step.
type trace struct {
	mu        sync.Mutex
	exchanges []exchange
}

type traceKey struct{}

// traced is a context whose requests are recorded.
func traced(ctx context.Context) (context.Context, *trace) {
	t := new(trace)
	return context.WithValue(ctx, traceKey{}, t), t
}

func (t *trace) add(e exchange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.exchanges) < mostExchanges {
		t.exchanges = append(t.exchanges, e.clipped())
	}
}

// take is what was recorded so far. What comes later, of a refresh that nobody waits for any more, is not shown.
func (t *trace) take() []exchange {
	t.mu.Lock()
	defer t.mu.Unlock()
	taken := t.exchanges
	t.exchanges = nil
	return taken
}

// recorder records the requests of traced contexts. The SDK does not know of it.
type recorder struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (r recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	t, found := request.Context().Value(traceKey{}).(*trace)
	if !found {
		return r.next.RoundTrip(request)
	}
	e := exchange{Summary: summary(request.Method, request.URL)}
	var form []byte
	if request.GetBody != nil {
		if body, err := request.GetBody(); err == nil {
			form, _ = io.ReadAll(io.LimitReader(body, mostRecorded))
		}
	}
	e.Request = requestText(request.Method, request.URL, request.Header)
	if len(form) > 0 {
		e.Request += "\n\n" + maskFields(string(form), "\n")
	}
	answer, err := r.next.RoundTrip(request)
	if err != nil {
		e.Summary += " → no answer"
		e.Answer = "(none) " + unanswered(err)
		t.add(e)
		return nil, err
	}
	body := &bytes.Buffer{}
	_, err = io.Copy(body, io.LimitReader(answer.Body, mostRecorded+1))
	e.Status = answer.StatusCode
	e.Summary += fmt.Sprintf(" → %d", answer.StatusCode)
	e.Answer = answerText(answer.StatusCode, answer.Header, body.Bytes())
	t.add(e)
	rest := io.Reader(answer.Body)
	if err != nil {
		rest = broken{err}
	}
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(body, rest), answer.Body}
	return answer, nil
}

// broken is the end of an answer that broke off.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

func summary(method string, u *url.URL) string {
	path, _, _ := strings.Cut(maskTarget(u), "\n")
	return method + " " + path
}

func requestText(method string, u *url.URL, header http.Header) string {
	return method + " " + maskTarget(u) + maskHeaders(header)
}

func answerText(status int, header http.Header, body []byte) string {
	text := fmt.Sprintf("%d %s", status, http.StatusText(status)) + maskHeaders(header)
	if shown := maskBody(body); shown != "" {
		text += "\n\n" + shown
	}
	return text
}

// unanswered says why no answer came, without addresses of requests.
func unanswered(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "It took too long."
	case dialed(err):
		return "The connection was not made: nobody listens there."
	default:
		return "The connection broke."
	}
}
