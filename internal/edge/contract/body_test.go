package contract

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"connect-svc/internal/testing/wait"
	"connect-svc/internal/testing/wiretest"
)

// A body is what it holds, and not how it is framed (RFC 9110, section 6.4; RFC 9112, section 7.1; RFC 9113, section 8.1).
func TestHasBody(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if HasBody(w, r) {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	address := server.Listener.Addr().String()

	const get = "GET / HTTP/1.1\nHost: a\nConnection: close\n"
	for name, test := range map[string]struct {
		text string
		has  bool
	}{
		"nothing":                      {get + "\n", false},
		"length 0":                     {get + "Content-Length: 0\n\n", false},
		"length 0, expecting":          {get + "Content-Length: 0\nExpect: 100-continue\n\n", false},
		"no chunks":                    {get + "Transfer-Encoding: chunked\n\n0\r\n\r\n", false},
		"no chunks, in capitals":       {get + "TRANSFER-ENCODING: CHUNKED\n\n0\r\n\r\n", false},
		"no chunks, expecting":         {get + "Transfer-Encoding: chunked\nExpect: 100-continue\n\n0\r\n\r\n", false},
		"no chunks, in many digits":    {get + "Transfer-Encoding: chunked\n\n0000\r\n\r\n", false},
		"no chunks, with an extension": {get + "Transfer-Encoding: chunked\n\n0;a=b\r\n\r\n", false},
		"no chunks, with a trailer":    {get + "Transfer-Encoding: chunked\nTrailer: a\n\n0\r\na: b\r\n\r\n", false},
		"length 1":                     {get + "Content-Length: 1\n\nx", true},
		"a chunk":                      {get + "Transfer-Encoding: chunked\n\n1\r\nx\r\n0\r\n\r\n", true},
		"a chunk that does not end":    {get + "Transfer-Encoding: chunked\n\n1\r\nx", true},
		"what is no chunk":             {get + "Transfer-Encoding: chunked\n\n-1\r\n\r\n", true},
		"a broken trailer":             {get + "Transfer-Encoding: chunked\n\n0\r\n:\r\n\r\n", true},
	} {
		t.Run("HTTP 1.1 "+name, func(t *testing.T) {
			t.Parallel()
			if got := wiretest.HTTP1(t, wiretest.Dial(t, address, "http/1.1"), test.text); got.Status != status(test.has) {
				t.Errorf("%d, want %d", got.Status, status(test.has))
			}
		})
	}
	for name, test := range map[string]struct {
		frames wiretest.Frames
		fields []string
		has    bool
	}{
		"ended with the headers":            {wiretest.Ended, nil, false},
		"an empty frame":                    {wiretest.Data(""), nil, false},
		"two empty frames":                  {wiretest.Data("", ""), nil, false},
		"an empty frame, expecting":         {wiretest.Data(""), []string{"expect", "100-continue"}, false},
		"an empty frame of length 0":        {wiretest.Data(""), []string{"content-length", "0"}, false},
		"length 0, ended with the headers":  {wiretest.Ended, []string{"content-length", "0"}, false},
		"a byte":                            {wiretest.Data("x"), nil, true},
		"a byte after an empty frame":       {wiretest.Data("", "x"), nil, true},
		"a byte of length 1":                {wiretest.Data("x"), []string{"content-length", "1"}, true},
		"a byte, and a stream without end":  {func(f *http2.Framer, id uint32) error { return f.WriteData(id, false, []byte("x")) }, nil, true},
		"a stream that is ended by trailer": {wiretest.Trailer("a", "b"), nil, false},
	} {
		t.Run("HTTP 2 "+name, func(t *testing.T) {
			t.Parallel()
			fields := append([]string{":method", "GET", ":scheme", "https", ":authority", "a", ":path", "/"}, test.fields...)
			if got := wiretest.HTTP2(t, wiretest.Dial(t, address, "h2"), test.frames, fields...); got.Status != status(test.has) {
				t.Errorf("%d, want %d", got.Status, status(test.has))
			}
		})
	}
}

func status(has bool) int {
	if has {
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// A caller who never says how its body goes on does not hold the request beyond its deadline.
func TestHasBodyInTime(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 10*time.Millisecond)
		defer cancel()
		w.Header().Set("Connection", "close") // as app does after chunks
		if HasBody(w, r.WithContext(ctx)) {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	server.Config.ReadTimeout = 10 * wait.Limit
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	address := server.Listener.Addr().String()

	for name, got := range map[string]wiretest.Answer{
		"HTTP 1.1, nothing":        wiretest.HTTP1(t, wiretest.Dial(t, address, "http/1.1"), "GET / HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n"),
		"HTTP 1.1, half of an end": wiretest.HTTP1(t, wiretest.Dial(t, address, "http/1.1"), "GET / HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n0\r\n"),
		"HTTP 2, nothing":          wiretest.HTTP2(t, wiretest.Dial(t, address, "h2"), wiretest.Open, ":method", "GET", ":scheme", "https", ":authority", "a", ":path", "/"),
	} {
		if got.Status != http.StatusBadRequest {
			t.Errorf("%s: %d, want 400", name, got.Status)
		}
	}
}

// deadlines has the deadlines of a connection.
type deadlines struct {
	httptest.ResponseRecorder
	read []time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.read = append(d.read, at)
	return nil
}

// HasBody removes the read deadline when the body has ended: at a late deadline net/http would conclude that the caller has left. It keeps
// the deadline if the body has not ended.
func TestDeadlineOfBody(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	end, _ := ctx.Deadline()
	for body, want := range map[string][]time.Time{"": {end, {}}, "x": {end}} {
		request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", strings.NewReader(body))
		request.ContentLength = -1
		connection := new(deadlines)
		if has := HasBody(connection, request); has != (body != "") || !slices.Equal(connection.read, want) {
			t.Errorf("%q: %t, deadlines %v, want %v", body, has, connection.read, want)
		}
	}
}
