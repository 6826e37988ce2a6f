// Package listener accepts connections for an HTTP handler. It bounds them, follows their requests, presents a certificate that is renewed
// while it serves, and stops without losing a request. It knows nothing of the service.
//
// # Invariants
//
//   - The connections of a listener and their requests are bounded. Something new replaces what waits for its caller, in the network
//     that has the most (TestConnections, app.TestFloodFromOneNetwork, app.TestSiege, connect-svc.TestMemoryOfConnections).
//   - A handler sees a request when it is whole, and only so many that one network leaves as many places as it takes (TestWork,
//     TestWholeRequests).
//   - A stop resets no connection that was made before it, on Linux (app.TestStopResetsNobody, TestDrainServesWhatWaits).
//   - A renewed certificate is presented without a restart. One that callers cannot use does not replace one that they can
//     (app.TestCertificateIsRenewed).
//   - A caller that abandons requests waits longer and longer (TestPacedConnection).
package listener

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"connect-svc/internal/foundation/network"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/work"
)

// Limits of a connection. The largest request line is an authorization URL of 16 KB and the largest body has 8 KB
// (specification 8); the longest response is a page of 500 activities.
const (
	writeMargin    = 7 * time.Second // after the operator's batches, which may take the longest
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
	pingAfter      = 30 * time.Second // in HTTP/2: the caller has 15 s to answer
	maxStreams     = 16               // of HTTP/2 on one connection: more than the concurrent reads of a client by default
)

// Config configures a listener.
type Config struct {
	Name     string       // in errors: it says which setting is wrong
	Listener net.Listener // an open one, instead of Address; the Server closes it
	Address  string
	Handler  http.Handler
	Limits   work.Limits // a request takes no longer than Batch
	// Places bounds the connections, and the requests beside the first of each connection.
	Places    int
	Proxies   network.Proxies // each of their connections counts as a network of its own
	MaxUnread int             // bytes of the bodies of one connection of HTTP/2 that nobody has read; 0: the library's own bound

	Certificate Certificate // nil: without TLS
	Setting     string      // of the certificate, in the log and in errors
	Host        string      // to which callers connect; empty: unknown
	Now         func() time.Time

	Logger *slog.Logger
}

// Server is a listener and the HTTP server on it.
type Server struct {
	HTTP        http.Server // not to be changed after Run has begun
	Certificate *Presented  // nil: without TLS

	name        string
	listener    net.Listener
	socket      net.Listener // under listener
	connections *connections
	breakOff    context.CancelFunc // ends the contexts of all requests
	stopping    atomic.Bool        // the listener closes because the server stops
	ended       chan struct{}      // closed after Run
	logger      *slog.Logger
}

// suites12 are the cipher suites of TLS 1.2: those of Go's default without CBC and SHA-1.
var suites12 = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// pollTime is the interval between two checks of what a stop waits for.
const pollTime = 5 * time.Millisecond

// Open opens a listener. Connections wait until [Server.Run] serves them.
func Open(ctx context.Context, config Config) (*Server, error) {
	open := config.Listener
	if open == nil {
		var listen net.ListenConfig
		listen.SetMultipathTCP(false) // it does not support filters, see takeNoMore
		var err error
		if open, err = listen.Listen(ctx, "tcp", config.Address); err != nil {
			return nil, fmt.Errorf("%s: %w", config.Name, err)
		}
	}
	counted := newConnections(config.Places, config.Proxies)
	requests, breakOff := context.WithCancel(context.WithoutCancel(ctx))
	s := &Server{
		HTTP: http.Server{
			Handler:           paced(counted.bound(config.Limits, oneOfChunks(config.Handler))),
			ReadHeaderTimeout: config.Limits.Head,
			ReadTimeout:       config.Limits.Request,
			WriteTimeout:      config.Limits.Batch + writeMargin,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    maxHeaderBytes,
			HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams, SendPingTimeout: pingAfter, MaxReceiveBufferPerConnection: config.MaxUnread},
			ErrorLog:          telemetry.ServerErrors(config.Logger),
			BaseContext:       func(net.Listener) context.Context { return requests },
			ConnContext:       withConnection,
			ConnState:         counted.observe,
		},
		name:        config.Name,
		listener:    boundListener{open, counted},
		socket:      open,
		connections: counted,
		breakOff:    breakOff,
		ended:       make(chan struct{}),
		logger:      config.Logger,
	}
	if config.Certificate == nil {
		return s, nil
	}
	var err error
	if s.Certificate, err = present(config.Certificate, config.Setting, config.Host, config.Now, config.Logger); err != nil {
		s.Close()
		return nil, err
	}
	s.HTTP.TLSConfig = &tls.Config{
		MinVersion:     tls.VersionTLS12,
		CipherSuites:   suites12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.Certificate.current.Load(), nil },
	}
	return s, nil
}

// Addr returns the address of the listener, with its actual port.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Counts returns the counts of connections now.
func (s *Server) Counts() Counts { return s.connections.counts() }

// Close closes the listener and ends the contexts of its requests. It may be closed already.
func (s *Server) Close() {
	s.breakOff()
	_ = s.listener.Close()
}

// Run serves until the server is stopped. A stop is not an error.
func (s *Server) Run() error {
	defer close(s.ended)
	var err error
	if s.HTTP.TLSConfig != nil {
		err = s.HTTP.ServeTLS(s.listener, "", "") // offers HTTP/2
	} else {
		err = s.HTTP.Serve(s.listener)
	}
	if errors.Is(err, http.ErrServerClosed) || s.stopping.Load() {
		return nil
	}
	return fmt.Errorf("%s: %w", s.name, err)
}

// Drain accepts what has been connected, and nothing after it, and waits for running requests. It aborts those that outlast ctx. The
// requests of connections that it has accepted must be read before Shutdown, which drops those that are not.
func (s *Server) Drain(ctx context.Context) {
	acceptRest(ctx, s.socket)
	s.stopping.Store(true)
	_ = s.listener.Close()
	select {
	case <-s.ended: // what it accepted last counts, too
	case <-ctx.Done():
	}
	for s.connections.counts().unread > 0 && ctx.Err() == nil {
		<-time.After(pollTime)
	}
	if err := s.HTTP.Shutdown(ctx); err != nil {
		s.logger.Warn("requests were broken off", "listener", s.name, "cause", err)
		_ = s.HTTP.Close() // before the contexts end: an aborted request must not write a response
		s.breakOff()
	}
}

// oneOfChunks closes a connection of HTTP/1 after a chunked request. The request may have had a length, too, which net/http removes. A
// proxy that goes by the length takes bytes for the body that the service would take for the next request (RFC 9112, section 6.1).
// In HTTP/1.0, net/http silently ignores the chunks instead, so that each connection is closed.
func oneOfChunks(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// OnlyHosts passes on requests for an IP address, localhost or one of the names, on any port. It answers all others with 421
// (Misdirected Request, RFC 9110, section 15.5.20). Otherwise a page in a browser could read a listener that only the browser's
// machine can reach, by resolving the page's own name to the listener's address (DNS rebinding): the browser takes the listener for
// the page's own server. The host of such a request is the name of the page. The names are in lower case.
func OnlyHosts(names []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isHost(r.Host, names) {
			telemetry.EventOf(r.Context()).Code = "misdirected_request"
			w.Header().Set("Cache-Control", "no-store")
			http.Error(w, "This host is not served here.", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isHost(host string, names []string) bool {
	if host == "" { // HTTP/1.0, which some load balancers use for probes and no browser uses
		return true
	}
	name := host
	if before, _, err := net.SplitHostPort(host); err == nil {
		name = before
	}
	// An IPv6 address without a port has brackets. A name that is complete may end with a dot (RFC 3986, section 3.2.2).
	name = strings.TrimSuffix(strings.ToLower(strings.Trim(name, "[]")), ".")
	_, err := netip.ParseAddr(name)
	return err == nil || name == "localhost" || slices.Contains(names, name)
}

// ServeLocally serves the programs of this machine (see [OnlyHosts]) until ctx ends, with TLS if there is a certificate. Requests that
// run then have the time of drain.
func ServeLocally(
	ctx context.Context, listener net.Listener, certificate *tls.Certificate, handler http.Handler, drain time.Duration, logger *slog.Logger,
) error {
	server := &http.Server{
		Handler: OnlyHosts(nil, handler), ReadHeaderTimeout: work.DefaultLimits.Head, ReadTimeout: work.DefaultLimits.Request, ErrorLog: telemetry.ServerErrors(logger),
	}
	if certificate != nil {
		listener = tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*certificate}})
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
		defer cancel()
		_ = server.Shutdown(limit)
		_ = server.Close()
	})
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-stopped
	return nil
}
