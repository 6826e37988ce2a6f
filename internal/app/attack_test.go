package app

import (
	"bufio"
	"connect-svc/internal/testing/wait"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// listening is the service on plain HTTP, as it stands behind a proxy, with the paths that reach its public handler.
type listening struct {
	public, private string // addresses

	mu    sync.Mutex
	paths []string
}

func newListening(t *testing.T) *listening {
	t.Helper()
	a, _, _ := open(t)
	l := &listening{public: a.public.Addr().String(), private: a.private.Addr().String()}
	handler := a.public.HTTP.Handler
	a.public.HTTP.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		l.paths = append(l.paths, r.URL.Path)
		l.mu.Unlock()
		handler.ServeHTTP(w, r)
	})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		a.Close()
	})
	return l
}

func (l *listening) saw(path string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.paths, path)
}

// say sends bytes on a connection of its own, and returns the statuses that come back. After the answers that are expected it
// says that nothing more will come: to the service a caller who says so earlier has left.
func say(t *testing.T, address, text string, answers int) (statuses []int) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() { _, _ = io.WriteString(conn, text) }() // the service may have closed it
	_ = conn.SetReadDeadline(time.Now().Add(wait.Limit))
	for reader := bufio.NewReader(conn); ; {
		if len(statuses) == answers {
			_ = conn.(*net.TCPConn).CloseWrite()
		}
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			return statuses
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		statuses = append(statuses, response.StatusCode)
	}
}

// TestSmuggling sends requests whose end is a matter of opinion (RFC 9112, sections 5, 6.3 and 11.2; OWASP ASVS 5.0, 4.2.1).
// The service refuses them, or closes the connection after the first: what a proxy in front of it takes for a body is never
// another request.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	l := newListening(t)
	const (
		post = "POST /oauth/token HTTP/1.1\r\nHost: connect.example.com\r\n"
		old  = "POST /oauth/token HTTP/1.0\r\nHost: connect.example.com\r\nConnection: keep-alive\r\n"
		form = "Content-Type: application/x-www-form-urlencoded\r\n"
	)
	for i, test := range []struct {
		name, text string
		want       []int
	}{
		{"both lengths", post + form + "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n%s", []int{401}},
		{"two lengths", post + form + "Content-Length: 0\r\nContent-Length: %d\r\n\r\n%s", []int{400}},
		{"a list of lengths", post + form + "Content-Length: 0, %d\r\n\r\n%s", []int{400}},
		{"a signed length", post + form + "Content-Length: +0\r\n\r\n%s", []int{400}},
		{"a negative length", post + form + "Content-Length: -1\r\n\r\n%s", []int{400}},
		{"a hexadecimal length", post + form + "Content-Length: 0x0\r\n\r\n%s", []int{400}},
		{"an empty length", post + form + "Content-Length: \r\n\r\n%s", []int{400}},
		{"a huge length", post + form + "Content-Length: 99999999999999999999\r\n\r\n%s", []int{400}},
		{"an unknown coding", post + form + "Transfer-Encoding: xchunked\r\n\r\n%s", []int{501}},
		{"chunked and another", post + form + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n%s", []int{501}},
		{"chunked twice", post + form + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n%s", []int{501}},
		{"a coding after a tab", post + form + "Transfer-Encoding:\tchunked\x0b\r\n\r\n0\r\n\r\n%s", []int{400}},
		{"a space before the colon", post + form + "Content-Length : 0\r\n\r\n%s", []int{400}},
		{"a space in a name", post + form + "Content Length: 0\r\n\r\n%s", []int{400}},
		{"no name", post + form + ": b\r\n\r\n%s", []int{400}},
		{"NUL in a value", post + form + "X-A: a\x00b\r\n\r\n%s", []int{400}},
		{"a bare CR in a value", post + form + "X-A: a\rContent-Length: 0\r\n\r\n%s", []int{400}},
		{"a chunk of nothing known", post + form + "Transfer-Encoding: chunked\r\n\r\nZ\r\n%s", []int{400}},
		{"a chunk that overflows", post + form + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n%s", []int{400}},
		{"both lengths in HTTP 1.0", old + form + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n%s", []int{400}},
		{"a coding in HTTP 1.0", old + form + "Transfer-Encoding: chunked\r\n\r\n%s", []int{401}},
		{"no length in HTTP 1.0", old + form + "\r\n%s", []int{401}},
		{"two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", []int{400}},
		{"no host", "GET / HTTP/1.1\r\n\r\n", []int{400}},
		{"a host that is none", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", []int{400}},
		{"HTTP 0.9", "GET /\r\n\r\n", []int{400}},
		{"HTTP 3.0", "GET / HTTP/3.0\r\nHost: a\r\n\r\n", []int{505}},
		{"three parts", "GET / / HTTP/1.1\r\nHost: a\r\n\r\n", []int{400}},
		{"a method with a space", " GET / HTTP/1.1\r\nHost: a\r\n\r\n", []int{400}},
		{"a broken path", "GET /%%zz HTTP/1.1\r\nHost: a\r\n\r\n", []int{400}},
		{"NUL in the path", "GET /\x00 HTTP/1.1\r\nHost: a\r\n\r\n", []int{400}},
		{"TLS", "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n", []int{400}},
		{"the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []int{404}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path := fmt.Sprintf("/smuggled-%d", i)
			smuggled := "GET " + path + " HTTP/1.1\r\nHost: connect.example.com\r\n\r\n"
			text := strings.NewReplacer("%d", fmt.Sprint(len(smuggled)), "%s", smuggled, "%%", "%").Replace(test.text)
			if got := say(t, l.public, text, 1); !slices.Equal(got, test.want) {
				t.Errorf("answers %v, want %v", got, test.want)
			}
			if l.saw(path) {
				t.Error("the request in the body was answered")
			}
			for _, status := range say(t, l.private, text, 1) {
				if status < 400 || status == 500 {
					t.Errorf("the private listener answers %d", status)
				}
			}
		})
	}
}

// A browser that has come to the private listener by TLS comes by nothing else any more; one that came without is not told so.
func TestPrivateListenerByTLSAlone(t *testing.T) {
	t.Parallel()
	a, _, _ := open(t)
	defer a.Close()
	for _, secure := range []bool{true, false} {
		r := httptest.NewRequest(http.MethodGet, "/healthz", nil)
		r.Host = "127.0.0.1"
		if secure {
			r.TLS = new(tls.ConnectionState)
		}
		answer := httptest.NewRecorder()
		a.PrivateHandler().ServeHTTP(answer, r)
		if got := answer.Header().Get("Strict-Transport-Security") != ""; got != secure {
			t.Errorf("with TLS: %t, the answer says so: %t", secure, got)
		}
	}
}

// TestFloods sends more of everything than a request may have. The answer is an error, and the next caller is served.
func TestFloods(t *testing.T) {
	t.Parallel()
	l := newListening(t)
	const get = "GET /.well-known/oauth-authorization-server HTTP/1.1\r\nHost: connect.example.com\r\n"
	for name, test := range map[string]struct {
		text string
		want []int
	}{
		"a long header":      {get + "X-A: " + strings.Repeat("a", 1<<20) + "\r\n\r\n", []int{431}},
		"a long name":        {get + strings.Repeat("a", 1<<20) + ": a\r\n\r\n", []int{431}},
		"many headers":       {get + strings.Repeat("X-A: b\r\n", 100_000) + "\r\n", []int{431}},
		"a long path":        {"GET /" + strings.Repeat("a", 1<<20) + " HTTP/1.1\r\nHost: a\r\n\r\n", []int{431}},
		"a long method":      {strings.Repeat("A", 1<<20) + " / HTTP/1.1\r\nHost: a\r\n\r\n", []int{431}},
		"many cookies":       {"GET /account HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("Cookie: a=b\r\n", 4_000) + "\r\n", []int{303}},
		"no end of a header": {get + "X-A: " + strings.Repeat("a", 1<<20), []int{431}},
		"a large body": {"POST /oauth/token HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\n" +
			"Content-Length: 10000000\r\n\r\n" + strings.Repeat("a", 10_000_000), []int{400}},
		"a large body in small chunks": {"POST /oauth/token HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\n" +
			"Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1\r\na\r\n", 100_000), []int{400}},
		"many fields": {"POST /oauth/token HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 8000\r\n\r\n" +
			strings.Repeat("a&", 4_000), []int{400}},
		"many parameters": {"GET /oauth/authorize?" + strings.Repeat("&a", 7_000) + " HTTP/1.1\r\nHost: a\r\n\r\n", []int{400}},
		"a trailer":       {get + "TE: trailers\r\nTransfer-Encoding: chunked\r\nTrailer: X-A\r\n\r\n0\r\nX-A: " + strings.Repeat("a", 1<<20) + "\r\n\r\n", []int{200}},
		"many requests":   {strings.Repeat(get+"\r\n", 200), slices.Repeat([]int{200}, 200)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := say(t, l.public, test.text, len(test.want)); !slices.Equal(got, test.want) {
				t.Errorf("answers %v, want %v", got, test.want)
			}
			if got := say(t, l.public, get+"\r\n", 1); !slices.Equal(got, []int{200}) {
				t.Errorf("the next caller is answered %v", got)
			}
		})
	}
}
