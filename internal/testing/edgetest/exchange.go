package edgetest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"connect-svc/internal/testing/contracttest"
)

// Request is one of an API.
type Request struct {
	Method, Target, Body string
	Header               http.Header
	Chunked              bool // without Content-Length
}

// Answer is what came back.
type Answer struct {
	Status int
	Code   string            // of an error: that of the partner API, or the last part of a problem's type
	Errors map[string]string // of a problem, details by pointer
	Header http.Header
	Body   string
}

// Serve is an edge on a server of its own, and a client that follows no redirect and holds each answer against the contract.
func Serve(t testing.TB, edge http.Handler, contract contracttest.Contract) (url string, client *http.Client) {
	t.Helper()
	server := httptest.NewServer(edge)
	t.Cleanup(server.Close)
	return server.URL, &http.Client{
		Transport:     contract.Transport(t, server.Client().Transport),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Send sends a request to the server at base, and reads the answer.
func Send(t testing.TB, client *http.Client, base string, r Request) Answer {
	t.Helper()
	var body io.Reader
	if r.Body != "" {
		body = strings.NewReader(r.Body)
	}
	if r.Chunked {
		body = io.MultiReader(body) // of unknown length
	}
	request, err := http.NewRequestWithContext(t.Context(), r.Method, base+r.Target, body)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range r.Header {
		request.Header[http.CanonicalHeaderKey(name)] = values
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	answer := Answer{Status: response.StatusCode, Header: response.Header, Body: string(text)}
	if response.StatusCode >= http.StatusBadRequest {
		answer.Code, answer.Errors = contracttest.ErrorCode(text), fieldsOf(text)
	}
	return answer
}

// fieldsOf is what a problem has to say of fields.
func fieldsOf(body []byte) (fields map[string]string) {
	var problem struct {
		Errors []struct{ Pointer, Detail string }
	}
	_ = json.Unmarshal(body, &problem)
	for _, field := range problem.Errors {
		if fields == nil {
			fields = map[string]string{}
		}
		fields[field.Pointer] = field.Detail
	}
	return fields
}

// Check wants a status and an error's code, empty for none. The request's name is for tests that send many.
func (a Answer) Check(t testing.TB, status int, code string, context ...any) {
	t.Helper()
	if a.Status != status || a.Code != code {
		t.Errorf("%.200s: answer is %d %q, want %d %q", fmt.Sprint(context...), a.Status, a.Code, status, code)
	}
}

// WantErrors wants a 422 with these errors.
func (a Answer) WantErrors(t testing.TB, name string, want map[string]string) {
	t.Helper()
	a.Check(t, http.StatusUnprocessableEntity, "invalid-content", name)
	if diff := cmp.Diff(want, a.Errors); diff != "" {
		t.Errorf("%.200s: errors (-want +got):\n%s", name, diff)
	}
}

// Decode reads the body of an answer.
func Decode[T any](t testing.TB, a Answer) (content T) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.Body), &content); err != nil {
		t.Fatal(err)
	}
	return content
}

// GetAnew asks a plain listener on a connection of its own.
func GetAnew(t testing.TB, url string) (status int, body string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}
