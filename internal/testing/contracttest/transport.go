package contracttest

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Transport sends requests through base (nil is [http.DefaultTransport]) and reports to t what is wrong with the
// answers. The answers themselves are passed on as they are. It is safe for concurrent use.
func Transport(t testing.TB, base http.RoundTripper) http.RoundTripper {
	t.Helper()
	document, err := load()
	if err != nil {
		t.Fatalf("the embedded document: %v", err)
	}
	return newTransport(t, base, document, document.check)
}

// OperatorTransport is [Transport] for the operator API, whose document is api/operator.yaml.
func OperatorTransport(t testing.TB, base http.RoundTripper) http.RoundTripper {
	t.Helper()
	document, err := loadOperator()
	if err != nil {
		t.Fatalf("the operator's embedded document: %v", err)
	}
	return newTransport(t, base, document, document.checkOperator)
}

// SandboxTransport is [Transport] for the sandbox's driver, whose document is api/sandbox.yaml.
func SandboxTransport(t testing.TB, base http.RoundTripper) http.RoundTripper {
	t.Helper()
	document, err := loadSandbox()
	if err != nil {
		t.Fatalf("the sandbox's embedded document: %v", err)
	}
	return newTransport(t, base, document, document.checkSandbox)
}

func newTransport(t testing.TB, base http.RoundTripper, document *document, check checkFunc) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return transport{t, base, document, check}
}

type checkFunc func(request *http.Request, status int, header http.Header, body []byte) error

type transport struct {
	t        testing.TB
	base     http.RoundTripper
	document *document
	check    checkFunc
}

func (tr transport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := tr.base.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	if err := tr.check(request, response.StatusCode, response.Header, body); err != nil {
		tr.t.Errorf("%s %s: %d is not as documented: %v", request.Method, shorten(request.URL.Path), response.StatusCode, err)
	} else {
		tr.document.saw(request, response.StatusCode, body)
	}
	return response, nil
}

// Handler is next, and reports to t what is wrong with its answers, for clients that are not of this process. Each answer
// is held back until it is whole.
func Handler(t testing.TB, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		if err := Check(r, answer.Code, answer.Result().Header, answer.Body.Bytes()); err != nil {
			t.Errorf("%s %s: %d is not as documented: %v", r.Method, shorten(r.URL.Path), answer.Code, err)
		}
		maps.Copy(w.Header(), answer.Result().Header)
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()) // fails only where nobody reads it any more
	})
}

// Check is what [Transport] finds wrong with an answer, for tests that have it in another way. It is nil when the
// answer is as documented. It counts for no coverage.
func Check(request *http.Request, status int, header http.Header, body []byte) error {
	document, err := load()
	if err != nil {
		return err
	}
	return document.check(request, status, header, body)
}

func shorten(path string) string {
	if len(path) > 100 {
		path = path[:100] + "…"
	}
	return strings.ToValidUTF8(path, "?")
}
