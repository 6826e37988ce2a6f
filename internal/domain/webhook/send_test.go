package webhook

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/wait"
)

// The receiver's behaviours, and the attempt's result for each. 2xx alone is success.
func TestAnswers(t *testing.T) {
	t.Parallel()
	elsewhere := receive(t, nil)
	status := func(status int) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(status) }
	}
	endless := func(rw http.ResponseWriter, request *http.Request) {
		for request.Context().Err() == nil {
			if _, err := rw.Write(bytes.Repeat([]byte("x"), 1000)); err != nil {
				return
			}
		}
	}
	tests := map[string]struct {
		answer  http.HandlerFunc
		status  int
		success bool
		fault   string
		length  int // of the answer
		endless bool
	}{
		"200":             {answer: status(200), status: 200, success: true},
		"204":             {answer: status(204), status: 204, success: true},
		"299":             {answer: status(299), status: 299, success: true},
		"304":             {answer: status(304), status: 304, fault: "redirects are not followed"},
		"400":             {answer: status(400), status: 400},
		"500":             {answer: status(500), status: 500},
		"a redirect":      {answer: http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect).ServeHTTP, status: 307, fault: "redirects are not followed"},
		"an endless body": {answer: endless, status: 200, success: true, length: maxResponse},
		"no answer": {
			answer: func(_ http.ResponseWriter, request *http.Request) {
				<-request.Context().Done()
				panic(http.ErrAbortHandler) // else net/http answers 200 for it
			},
			fault: "no complete response within 5 seconds", endless: true,
		},
		"a body without end": {
			answer: func(rw http.ResponseWriter, request *http.Request) {
				_, _ = rw.Write([]byte("well"))
				_ = http.NewResponseController(rw).Flush()
				<-request.Context().Done()
			},
			status: 200, fault: "no complete response within 5 seconds", length: 4, endless: true,
		},
		"a broken connection": {answer: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, fault: "the connection broke"},
		"no HTTP": {
			answer: func(rw http.ResponseWriter, _ *http.Request) {
				conn, _, err := http.NewResponseController(rw).Hijack()
				if err == nil {
					_, _ = io.WriteString(conn, "what?\r\n\r\n")
					_ = conn.Close()
				}
			},
			fault: "no valid response",
		},
		"endless headers": {
			answer: func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("X", strings.Repeat("x", 100_000))
			},
			fault: "no valid response",
		},
	}
	w := newWorld(t)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldOn(t, w.db, w.keys)
			id := w.revoked(t, w.client(t, receive(t, tt.answer)))
			limit := wait.Limit
			if tt.endless {
				limit = 100 * time.Millisecond
			}
			var event Event
			for ; ; limit *= 2 { // on a busy machine even what does come of an endless answer may take longer
				w.limit(work.Limits{Claim: wait.Limit, Webhook: limit})
				w.attemptNow(t, id)
				event = w.event(t, id)
				if last := event.Attempts[len(event.Attempts)-1]; limit >= wait.Limit || last.Status == tt.status && len(last.Response) >= tt.length {
					break
				}
			}
			if len(event.Attempts) != 1 && !tt.endless || (event.State == Delivered) != tt.success {
				t.Fatalf("the event: %+v", event)
			}
			attempt := event.Attempts[len(event.Attempts)-1]
			if attempt.Status != tt.status || attempt.Fault != tt.fault || attempt.Success() != tt.success || len(attempt.Response) != tt.length && tt.length > 0 {
				t.Errorf("status %d, fault %q, %d bytes", attempt.Status, attempt.Fault, len(attempt.Response))
			}
		})
	}
	t.Cleanup(func() {
		if n := len(elsewhere.all()); n != 0 {
			t.Errorf("the redirect was followed %d times", n)
		}
	})
}

// Addresses inside the operator's networks are refused at dial, however they are written.
func TestAddressesThatAreRefused(t *testing.T) {
	t.Parallel()
	var connections atomic.Int32
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			_ = conn.Close()
		}
	}()
	port := listener.Addr().(*net.TCPAddr).Port
	s := newSender(nil, nil, wait.Limit)
	for _, host := range []string{
		"127.0.0.1", "localhost", "127.1.2.3", "[::1]", "[::ffff:127.0.0.1]", "[::]", "0.0.0.0", "10.0.0.1", "172.16.0.1",
		"192.168.0.1", "100.64.0.1", "169.254.169.254", "[fe80::1]", "[fd00::1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]",
		"192.0.2.1", "198.18.0.1", "224.0.0.1", "255.255.255.255",
	} {
		attempt, _ := s.post(t.Context(), fmt.Sprintf("https://%s:%d/", host, port), http.Header{}, nil)
		if attempt.Fault != "the address is not allowed" {
			t.Errorf("%s: %q, %d", host, attempt.Fault, attempt.Status)
		}
	}
	// Nobody may answer what the addresses of these are.
	s.timeout = work.DefaultLimits.Webhook
	for _, host := range []string{"2130706433", "0x7f.1", "0177.0.0.1", "127.1"} { // a resolver may take these for addresses
		if attempt, _ := s.post(t.Context(), fmt.Sprintf("https://%s:%d/", host, port), http.Header{}, nil); attempt.Fault == "" {
			t.Errorf("%s: %d", host, attempt.Status)
		}
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections to the inside", n)
	}
}

// Addresses at which clouds answer a machine of theirs are refused, also those that are otherwise public. They are asked about
// before a dial.
func TestAddressesOfCloudsAreRefused(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"168.63.129.16", "169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254", "fd00:42::42",
	} {
		if err := guard(nil).SafeAddrPort(netip.AddrPortFrom(netip.MustParseAddr(address), 443)); err == nil {
			t.Errorf("%s is dialed", address)
		}
	}
	if err := guard([]netip.Prefix{netip.MustParsePrefix("168.63.129.16/32")}).Safe("tcp4", "168.63.129.16:443", nil); err != nil {
		t.Errorf("an address that the operator allowed: %v", err)
	}
	if err := guard(nil).Safe("tcp4", "168.63.129.17:443", nil); err != nil {
		t.Errorf("a public address: %v", err)
	}
}

// A name that led to an allowed address leads inside the next time: what counts is where the connection goes.
func TestRebinding(t *testing.T) {
	t.Parallel()
	var answers atomic.Int32
	resolver := resolve(t, func() netip.Addr {
		if answers.Add(1) == 1 {
			return netip.MustParseAddr("127.0.0.2")
		}
		return netip.MustParseAddr("127.0.0.1")
	})
	listener, err := net.Listen("tcp", "0.0.0.0:0") // both
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Connection", "close")
	}))
	_ = server.Listener.Close()
	server.Listener = listener
	server.StartTLS()
	defer server.Close()
	s := newSender([]netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}, roots(t), wait.Limit)
	s.dialer.Resolver = resolver
	url := fmt.Sprintf("https://example.com:%d/", listener.Addr().(*net.TCPAddr).Port) // a name of the certificate
	if attempt, _ := s.post(t.Context(), url, http.Header{}, nil); !attempt.Success() {
		t.Fatalf("before: %+v", attempt)
	}
	if attempt, _ := s.post(t.Context(), url, http.Header{}, nil); attempt.Fault != "the address is not allowed" {
		t.Errorf("after: %+v", attempt)
	}
}

// resolve is a DNS server of the test's own, which answers questions for IPv4 with an address.
func resolve(t *testing.T, address func() netip.Addr) *net.Resolver {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	go func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}
			var message dnsmessage.Message
			if err := message.Unpack(buffer[:n]); err != nil {
				continue
			}
			message.Response, message.RecursionAvailable, message.Additionals = true, true, nil
			if question := message.Questions[0]; question.Type == dnsmessage.TypeA {
				message.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: question.Name, Class: question.Class, Type: question.Type},
					Body:   &dnsmessage.AResource{A: address().As4()},
				}}
			}
			if answer, err := message.Pack(); err == nil {
				_, _ = server.WriteTo(answer, from)
			}
		}
	}()
	dialer := new(net.Dialer)
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

// A receiver without a valid certificate, without TLS, without a name, or that is away gets nothing.
func TestReceiversThatCannotBeReached(t *testing.T) {
	t.Parallel()
	r := receive(t, nil)
	plain := httptest.NewServer(nil)
	defer plain.Close()
	closed := httptest.NewTLSServer(nil)
	closed.Close()
	s := newSender(loopback, roots(t), wait.Limit)
	strict := newSender(loopback, x509.NewCertPool(), wait.Limit)
	port := r.Listener.Addr().(*net.TCPAddr).Port
	for name, tt := range map[string]struct {
		sender     *sender
		url, fault string
	}{
		"an unknown authority":       {strict, r.URL, "the certificate is not valid"},
		"another name":               {s, fmt.Sprintf("https://localhost:%d/", port), "the certificate is not valid"},
		"no TLS":                     {s, strings.Replace(plain.URL, "http:", "https:", 1), "TLS failed"},
		"nobody listens":             {s, closed.URL, "cannot connect"},
		"a name that does not exist": {s, "https://partner.invalid/", "the name cannot be resolved"},
	} {
		if attempt, _ := tt.sender.post(t.Context(), tt.url, http.Header{}, nil); attempt.Fault != tt.fault || attempt.Status != 0 {
			t.Errorf("%s: %+v", name, attempt)
		}
	}
	if n := len(r.all()); n != 0 {
		t.Errorf("%d calls", n)
	}
}

// A proxy of the environment is not used.
func TestNoProxy(t *testing.T) {
	proxy := receive(t, nil)
	t.Setenv("HTTPS_PROXY", proxy.URL)
	t.Setenv("https_proxy", proxy.URL)
	if transport := newSender(loopback, nil, wait.Limit).client.Transport.(*http.Transport); transport.Proxy != nil {
		t.Error("there is a proxy")
	}
}

// FuzzURL: what is taken for a receiver is an https URL of a host and nothing secret, which HTTP can send to.
func FuzzURL(f *testing.F) {
	for _, seed := range []string{"https://partner.example/webhooks", "https://[::1]:9/?x=%00", "https://a@b/", "https://a:0/", "https://a:65536", "https://", "HTTPS://a",
		"https://a#", "https://a\x00", "https://a b", "https://%61/", "https://a:/", "https://[fe80::1%25x]/", "http://a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if ValidateURL(text) != nil {
			return
		}
		request, err := http.NewRequest(http.MethodPost, text, nil)
		if err != nil {
			t.Fatalf("%q cannot be asked: %v", text, err)
		}
		if u := request.URL; u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" || len(text) > MaxURL {
			t.Errorf("%q was taken", text)
		}
	})
}

// FuzzRetryAfter: whatever a receiver says, the next attempt is within a day, and never in the past.
func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"", "0", "-1", "86401", "18446744073709551615", "18446744073709551616", "Sun, 06 Nov 1994 08:49:37 GMT", "Fri, 31 Dec 9999 23:59:59 GMT"} {
		f.Add(seed)
	}
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		if wait := retryAfterOf(text, now); wait < 0 || wait > 24*time.Hour {
			t.Errorf("%q: %v", text, wait)
		}
	})
}
