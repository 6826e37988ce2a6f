package connect_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	connectsdk "connect.invalid/connect-go"
	"connect.invalid/connect-go/connect"
)

// network is what lies between the client and the service, until it is mended.
type network struct {
	dial  func(ctx context.Context, address string) (net.Conn, error)
	proxy string // address
	http2 bool
	brief bool // nothing comes back: the client's time is short
	// until ends the time of a request that has come so far, if it is not nil. The client's own is far longer than that of any machine.
	until chan struct{}
}

// countingService is a service on loopback that counts the refresh tokens that it gets, and gives an access token that names their number.
func countingService(t *testing.T) (server *httptest.Server, refreshes *atomic.Int32) {
	t.Helper()
	refreshes = new(atomic.Int32)
	server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.PostFormValue("grant_type") == "refresh_token" {
			refreshes.Add(1)
			fmt.Fprint(w, strings.NewReplacer("svca_secret", "svca_next", "svcr2_secret", "svcr2_next").Replace(tokens))
			return
		}
		fmt.Fprint(w, tokens)
	}))
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, refreshes
}

// through is a process of the partner whose requests to the service meet the network.
func through(t *testing.T, n network, server *httptest.Server, store connect.Store) *connect.Client {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	roots.AddCert(authority.certificate)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: n.http2}
	t.Cleanup(transport.CloseIdleConnections)
	if n.dial != nil {
		transport.DialContext = func(ctx context.Context, _, address string) (net.Conn, error) { return n.dial(ctx, address) }
	}
	if n.proxy != "" {
		transport.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: n.proxy})
	}
	config := connect.Config{
		BaseURL: server.URL, ClientID: "id", ClientSecret: "svci_secret", CallbackURL: "https://partner.example/callback",
		Scopes: []connectsdk.Scope{connectsdk.ScopeDailyStepsRead}, Store: store, HTTPClient: &http.Client{Transport: transport},
	}
	if n.brief {
		config.Timeout = 200 * time.Millisecond
	}
	if n.until != nil {
		config.HTTPClient.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			ctx, cancel := context.WithCancelCause(r.Context())
			go func() { <-n.until; cancel(context.DeadlineExceeded) }()
			return transport.RoundTrip(r.WithContext(ctx))
		})
	}
	client, err := connect.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// refreshTwice refreshes through the network, and again when that is mended.
func refreshTwice(t *testing.T, n network) (held connect.Connection, refreshes int32, first, second error) {
	t.Helper()
	server, count := countingService(t)
	store := connect.NewMemoryStore()
	good := through(t, network{}, server, store)
	begun := good.Begin()
	if _, err := good.Finish(t.Context(), "ada", begun, url.Values{"state": {begun.State}, "code": {"svcc_x"}}); err != nil {
		t.Fatal(err)
	}
	_, first = through(t, n, server, store).Refresh(t.Context(), "ada")
	_, second = good.Refresh(t.Context(), "ada")
	held, err := store.Load(t.Context(), "ada")
	if err != nil {
		t.Fatal(err)
	}
	return held, count.Load(), first, second
}

// Until a request was handed to an established, verified connection, its refresh token has not left, and is sent by the next call. The
// same where HTTP/2 says that nobody has processed it.
func TestTokenThatNeverLeft(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]network{
		"a proxy that refuses the connection":         {proxy: closedAddress(t)},
		"a proxy that answers 502":                    {proxy: listen(t, answering("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"))},
		"a proxy that answers 407":                    {proxy: listen(t, answering("HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"))},
		"a proxy that closes":                         {proxy: listen(t, answering(""))},
		"a certificate that does not verify":          {dial: to(listen(t, handshake(strangers.sign(time.Hour))))},
		"a certificate that has expired":              {dial: to(listen(t, handshake(authority.sign(-time.Hour))))},
		"a reset in the handshake":                    {dial: to(listen(t, reset))},
		"a SYN that is dropped":                       {dial: unanswered, brief: true},
		"a handshake that is never answered":          {dial: to(listen(t, silence)), brief: true},
		"a name that does not resolve":                {dial: unresolved},
		"HTTP/2: REFUSED_STREAM":                      {dial: to(listen(t, http2Answer(rstStream(7)))), http2: true},
		"HTTP/2: GOAWAY before the request":           {dial: to(listen(t, http2Answer(goAway(0, 0)))), http2: true},
		"HTTP/2: GOAWAY before the request, an error": {dial: to(listen(t, http2Answer(goAway(0, 2)))), http2: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			held, refreshes, first, second := refreshTwice(t, n)
			if first == nil || errors.Is(first, connect.ErrReconnect) || second != nil || held.RefreshToken != "svcr2_next" || refreshes != 1 {
				t.Errorf("first %v, then %v: %v after %d refreshes", first, second, held, refreshes)
			}
		})
	}
}

// Requests of HTTP/2 that begin together may be more than a connection takes: it refuses some for a moment. Each of them is sent again.
func TestRefusedStreamsForAMoment(t *testing.T) {
	t.Parallel()
	server, refreshes := countingService(t)
	refusing := listen(t, http2Answer(rstStream(7), rstStream(7), goAway(0, 0)))
	store := connect.NewMemoryStore()
	good := through(t, network{}, server, store)
	begun := good.Begin()
	if _, err := good.Finish(t.Context(), "ada", begun, url.Values{"state": {begun.State}, "code": {"svcc_x"}}); err != nil {
		t.Fatal(err)
	}
	var dials atomic.Int32
	client := through(t, network{http2: true, dial: func(ctx context.Context, address string) (net.Conn, error) {
		if dials.Add(1) == 1 {
			address = refusing
		}
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}}, server, store)
	if _, err := client.Refresh(t.Context(), "ada"); err != nil || refreshes.Load() != 1 || dials.Load() != 2 {
		t.Errorf("%v after %d refreshes and %d connections", err, refreshes.Load(), dials.Load())
	}
}

// When the token may have left and no whole answer came, nobody knows. It is never sent again, and the error says what failed.
func TestTokenThatMayHaveLeft(t *testing.T) {
	t.Parallel()
	const head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	for name, test := range map[string]struct {
		answer func(net.Conn)
		http2  bool
		hangs  bool
		cause  string
	}{
		"a reset":                          {answer: reset, cause: "reset by peer"},
		"a close":                          {answer: answering(""), cause: "EOF"},
		"no answer in time":                {answer: silence, hangs: true, cause: "deadline exceeded"},
		"half an answer":                   {answer: answering(head + "Content-Length: 1000\r\n\r\n{"), cause: "unexpected EOF"},
		"an answer that cannot be read":    {answer: answering(head + "Content-Length: 2\r\n\r\n{}"), cause: "cannot be read"},
		"half of a redirect":               {answer: answering("HTTP/1.1 307 x\r\nLocation: /\r\nContent-Length: 9\r\n\r\n"), cause: "unexpected EOF"},
		"500":                              {answer: answering("HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n")},
		"502":                              {answer: answering("HTTP/1.1 502 x\r\nContent-Length: 0\r\n\r\n")},
		"503":                              {answer: answering("HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n")},
		"HTTP/2: INTERNAL_ERROR":           {answer: http2Answer(rstStream(2)), http2: true, cause: "INTERNAL_ERROR"},
		"HTTP/2: GOAWAY after the request": {answer: http2Answer(goAway(1, 0)), http2: true, cause: "GOAWAY"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got atomic.Int32
			n := network{http2: test.http2}
			if test.hangs {
				n.until = make(chan struct{})
			}
			peer := func(connection net.Conn) {
				tlsConnection := tls.Server(connection, &tls.Config{Certificates: []tls.Certificate{authority.sign(time.Hour)}, NextProtos: protocols(test.http2)})
				if test.http2 {
					got.Add(1)
					test.answer(connection)
					return
				}
				request, err := http.ReadRequest(bufio.NewReader(tlsConnection))
				if err != nil {
					return
				}
				if request.FormValue("refresh_token") == "svcr2_secret" {
					got.Add(1)
				}
				if test.hangs {
					close(n.until)
				}
				test.answer(tlsConnection)
			}
			n.dial = to(listen(t, peer))
			held, refreshes, first, second := refreshTwice(t, n)
			var why *connect.ReconnectError
			if !errors.As(first, &why) || why.State != connect.StateUncertain || !errors.Is(second, connect.ErrReconnect) ||
				held.State != connect.StateUncertain || held.RefreshToken != "" || refreshes != 0 || got.Load() != 1 {
				t.Errorf("first %v, then %v: %v after %d and %d refreshes", first, second, held, got.Load(), refreshes)
			}
			if cause := why.Unwrap(); (cause == nil) != (test.cause == "") || cause != nil && !strings.Contains(cause.Error(), test.cause) {
				t.Errorf("the cause is %v", cause)
			}
			if strings.Contains(first.Error(), "secret") || strings.Contains(first.Error(), "https://") {
				t.Errorf("the error tells too much: %v", first)
			}
		})
	}
}

// An idle connection that the service has closed: net/http sends the request on another one if not a byte was written. If there is no
// other one, the token has not left.
func TestIdleConnectionThatIsClosed(t *testing.T) {
	t.Parallel()
	for name, reachable := range map[string]bool{"another one": true, "no other one": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, _ := countingService(t)
			store := connect.NewMemoryStore()
			var dials, broken atomic.Int32
			client := through(t, network{dial: func(ctx context.Context, address string) (net.Conn, error) {
				if dials.Add(1) > 1 && !reachable {
					return nil, errors.New("no route to host")
				}
				connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
				return &breaking{Conn: connection, broken: &broken}, err
			}}, server, store)
			begun := client.Begin()
			if _, err := client.Finish(t.Context(), "ada", begun, url.Values{"state": {begun.State}, "code": {"svcc_x"}}); err != nil {
				t.Fatal(err)
			}
			broken.Store(1)
			_, err := client.Refresh(t.Context(), "ada")
			held, loadErr := store.Load(t.Context(), "ada")
			if loadErr != nil || held.State != connect.StateActive || (err == nil) != reachable || dials.Load() != 2 {
				t.Errorf("%v, then %v (%v) after %d connections", err, held, loadErr, dials.Load())
			}
		})
	}
}

// A client of the partner's own tells by the hooks of net/http/httptrace what became of the request.
func TestHooksOfAnotherClient(t *testing.T) {
	t.Parallel()
	opens := func(trace *httptrace.ClientTrace) { trace.GetConn("connect.example.com:443") }
	opened := func(trace *httptrace.ClientTrace) { trace.GotConn(httptrace.GotConnInfo{}) }
	wrote := func(trace *httptrace.ClientTrace) { trace.WroteHeaders() }
	for name, test := range map[string]struct {
		calls []func(*httptrace.ClientTrace)
		want  connect.State
	}{
		"no connection": {[]func(*httptrace.ClientTrace){opens}, connect.StateActive},
		"a connection, and nothing of the request":   {[]func(*httptrace.ClientTrace){opens, opened}, connect.StateUncertain},
		"a second connection, when nothing was sent": {[]func(*httptrace.ClientTrace){opens, opened, opens}, connect.StateActive},
		"a second connection, when it was sent":      {[]func(*httptrace.ClientTrace){opens, opened, wrote, opens}, connect.StateUncertain},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := connect.NewMemoryStore()
			client := connected(t, store, func(r *http.Request) (*http.Response, error) {
				for _, call := range test.calls {
					call(httptrace.ContextClientTrace(r.Context()))
				}
				return nil, errors.New("it failed")
			})
			_, err := client.Refresh(t.Context(), "ada")
			held, loadErr := store.Load(t.Context(), "ada")
			if loadErr != nil || held.State != test.want || errors.Is(err, connect.ErrReconnect) != (test.want == connect.StateUncertain) {
				t.Errorf("%v, %v (%v)", err, held, loadErr)
			}
		})
	}
}

// The package's own client dials and makes the handshake in less time than a request has, so that it is known that nothing left. The test
// takes these ten seconds.
func TestOwnClientEndsAHandshake(t *testing.T) {
	t.Parallel()
	store := connect.NewMemoryStore()
	lock, err := store.Lock(t.Context(), "ada")
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Save(t.Context(), connect.Connection{Version: "1", State: connect.StateActive, RefreshToken: "svcr2_secret"}); err != nil {
		t.Fatal(err)
	}
	lock.Unlock()
	client, err := connect.New(connect.Config{
		BaseURL: "https://" + listen(t, silence), ClientID: "id", ClientSecret: "svci_secret", CallbackURL: "https://partner.example/callback",
		Scopes: []connectsdk.Scope{connectsdk.ScopeDailyStepsRead}, Store: store, Timeout: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Refresh(t.Context(), "ada")
	held, loadErr := store.Load(t.Context(), "ada")
	if err == nil || !strings.Contains(err.Error(), "handshake timeout") || loadErr != nil || held.State != connect.StateActive {
		t.Errorf("%v, then %v (%v)", err, held, loadErr)
	}
}

// breaking is the first connection, which writes nothing any more once it is broken.
type breaking struct {
	net.Conn
	broken *atomic.Int32
}

func (b *breaking) Write(p []byte) (int, error) {
	if b.broken.CompareAndSwap(1, 2) {
		return 0, errors.New("broken pipe")
	}
	return b.Conn.Write(p)
}

// listen plays a peer for each connection to an address of loopback.
func listen(t *testing.T, play func(net.Conn)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { defer connection.Close(); play(connection) }()
		}
	}()
	return listener.Addr().String()
}

func closedAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func to(address string) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}
}

func unanswered(ctx context.Context, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func unresolved(ctx context.Context, _ string) (net.Conn, error) {
	resolver := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no name server")
	}}
	return (&net.Dialer{Resolver: resolver}).DialContext(ctx, "tcp", "connect.example.com:443")
}

// answering reads what comes first, and answers it.
func answering(text string) func(net.Conn) {
	return func(connection net.Conn) {
		if _, isTLS := connection.(*tls.Conn); !isTLS {
			_, _ = connection.Read(make([]byte, 4096))
		}
		_, _ = io.WriteString(connection, text)
	}
}

func silence(connection net.Conn) { _, _ = io.Copy(io.Discard, connection) }

// reset has the connection end by a RST, of TLS before anything was answered.
func reset(connection net.Conn) {
	if above, ok := connection.(*tls.Conn); ok {
		connection = above.NetConn()
	} else {
		_, _ = connection.Read(make([]byte, 1))
	}
	_ = connection.(*net.TCPConn).SetLinger(0)
}

func handshake(certificate tls.Certificate) func(net.Conn) {
	return func(connection net.Conn) {
		_ = tls.Server(connection, &tls.Config{Certificates: []tls.Certificate{certificate}}).Handshake()
		silence(connection)
	}
}

func protocols(http2 bool) []string {
	if http2 {
		return []string{"h2"}
	}
	return nil
}

// http2Answer takes requests of HTTP/2 whole, and answers each with the next frame, or with the last.
func http2Answer(frames ...[]byte) func(net.Conn) {
	return func(connection net.Conn) {
		left := frames
		c := tls.Server(connection, &tls.Config{Certificates: []tls.Certificate{authority.sign(time.Hour)}, NextProtos: protocols(true)})
		if _, err := io.ReadFull(c, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
			return
		}
		if _, err := c.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0}); err != nil { // SETTINGS
			return
		}
		for header := make([]byte, 9); ; {
			if _, err := io.ReadFull(c, header); err != nil {
				return
			}
			size := int64(header[0])<<16 | int64(header[1])<<8 | int64(header[2])
			if _, err := io.CopyN(io.Discard, c, size); err != nil {
				return
			}
			if endStream := header[4]&1 != 0; header[3] <= 1 && endStream { // DATA or HEADERS
				frame := slices.Clone(left[0])
				left = left[min(1, len(left)-1):]
				if frame[3] == 3 {
					copy(frame[5:9], header[5:9]) // of this request
				}
				_, _ = c.Write(frame)
				if frame[3] == 7 && binary.BigEndian.Uint32(frame[9:]) > 0 {
					return // it had the request, and is gone
				}
			}
		}
	}
}

func rstStream(code uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{0, 0, 4, 3, 0, 0, 0, 0, 0}, code)
}

func goAway(last, code uint32) []byte {
	frame := binary.BigEndian.AppendUint32([]byte{0, 0, 8, 7, 0, 0, 0, 0, 0}, last)
	return binary.BigEndian.AppendUint32(frame, code)
}

// issuer signs certificates of 127.0.0.1.
type issuer struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

var authority, strangers = newIssuer(), newIssuer()

func newIssuer() issuer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return issuer{certificate, key}
}

func (i issuer) sign(lasts time.Duration) tls.Certificate {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(lasts), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, i.certificate, i.key.Public(), i.key)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: i.key}
}
