package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"connect-svc/internal/foundation/telemetry"
)

// Limits of a connection. The largest request line is an authorization URL of 16 KB and the largest body has 8 KB
// (specification 8); the longest response is a page of 500 activities.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	writeMargin       = 7 * time.Second // after the operator's batches, which may take the longest
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	pingAfter         = 30 * time.Second // in HTTP/2: the caller has 15 s to answer
	maxUnread         = 64 << 10         // of the bodies of one connection of HTTP/2 to the public listener
	maxStreams        = 16               // of HTTP/2 on one connection: more than the concurrent reads of a client by default
)

// server is a listener and the HTTP server on it.
type server struct {
	http.Server
	name        string
	listener    net.Listener
	socket      net.Listener // under listener
	connections *connections
	breakOff    context.CancelFunc // ends the contexts of all requests
	stopping    atomic.Bool        // the listener closes because the server stops
	ended       chan struct{}      // closed after run
}

// pollTime is the interval between two checks of what a stop waits for.
const pollTime = 5 * time.Millisecond

// listen makes a server with the limits above, on the listener open if there is one, otherwise on address. Errors contain name, which
// says which setting is wrong. No request takes longer than longest.
func listen(
	ctx context.Context, name string, open net.Listener, address string, connections *connections, handler http.Handler,
	longest time.Duration, logger *slog.Logger,
) (*server, error) {
	if open == nil {
		var config net.ListenConfig
		config.SetMultipathTCP(false) // it does not support filters, see takeNoMore
		var err error
		if open, err = config.Listen(ctx, "tcp", address); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	requests, breakOff := context.WithCancel(context.WithoutCancel(ctx))
	return &server{
		Server: http.Server{
			Handler:           connections.bound(paced(oneOfChunks(handler))),
			ReadHeaderTimeout: readHeaderTimeout,
			ReadTimeout:       readTimeout,
			WriteTimeout:      longest + writeMargin,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    maxHeaderBytes,
			HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams, SendPingTimeout: pingAfter},
			ErrorLog:          telemetry.ServerErrors(logger),
			BaseContext:       func(net.Listener) context.Context { return requests },
			ConnContext:       withConnection,
			ConnState:         connections.observe,
		},
		name:        name,
		listener:    boundListener{open, connections},
		socket:      open,
		connections: connections,
		breakOff:    breakOff,
		ended:       make(chan struct{}),
	}, nil
}

// run serves until the server is stopped. A stop is not an error.
func (s *server) run() error {
	defer close(s.ended)
	var err error
	if s.TLSConfig != nil {
		err = s.ServeTLS(s.listener, "", "") // offers HTTP/2
	} else {
		err = s.Serve(s.listener)
	}
	if errors.Is(err, http.ErrServerClosed) || s.stopping.Load() {
		return nil
	}
	return fmt.Errorf("%s: %w", s.name, err)
}

// drain accepts what has been connected, and nothing after it, and waits for running requests. It aborts those that outlast ctx. The
// requests of connections that it has accepted must be read before Shutdown, which drops those that are not.
func (s *server) drain(ctx context.Context, logger *slog.Logger) {
	acceptRest(ctx, s.socket)
	s.stopping.Store(true)
	_ = s.listener.Close()
	select {
	case <-s.ended: // what it accepted last counts, too
	case <-ctx.Done():
	}
	s.connections.allRead(ctx)
	if err := s.Shutdown(ctx); err != nil {
		logger.Warn("requests were broken off", "listener", s.name, "cause", err)
		_ = s.Close() // before the contexts end: an aborted request must not write a response
		s.breakOff()
	}
}

// ServeLocally serves the programs of this machine (see [OnlyHosts]) until ctx ends, with TLS if there is a certificate. Requests that
// run then have the time of drain.
func ServeLocally(
	ctx context.Context, listener net.Listener, certificate *tls.Certificate, handler http.Handler, drain time.Duration, logger *slog.Logger,
) error {
	server := &http.Server{
		Handler: OnlyHosts(nil, handler), ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, ErrorLog: telemetry.ServerErrors(logger),
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
