package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"connect-svc/internal/telemetry"
)

// What a connection may take of the server. The largest request line is an authorization URL of 16 KB (specification
// 8); the largest body 8 KB, and the longest answer a page of 500 activities.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	writeTimeout      = 35 * time.Second // the operator's batches may take 30
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	maxStreams        = 16 // of HTTP/2 on one connection: more than a client has reads at one time, unless it is given more
)

// server is one of the two listeners with what serves it.
type server struct {
	http.Server
	name     string
	listener net.Listener
	breakOff context.CancelFunc // ends the contexts of all requests
}

// listen opens a listener, where it is not open already. The name says in an error which setting is meant.
func listen(ctx context.Context, name string, open net.Listener, address string) (*server, error) {
	if open == nil {
		var err error
		if open, err = new(net.ListenConfig).Listen(ctx, "tcp", address); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	requests, breakOff := context.WithCancel(context.WithoutCancel(ctx))
	s := &server{name: name, listener: pacedListener{open}, breakOff: breakOff}
	s.ConnContext = withConn
	s.BaseContext = func(net.Listener) context.Context { return requests }
	return s, nil
}

// prepare gives the server its handler, its limits and its certificate, which may be nil.
func (s *server) prepare(handler http.Handler, certificate *tls.Certificate, logger *slog.Logger) {
	s.Handler = paced(handler)
	s.ReadHeaderTimeout = readHeaderTimeout
	s.ReadTimeout = readTimeout
	s.WriteTimeout = writeTimeout
	s.IdleTimeout = idleTimeout
	s.MaxHeaderBytes = maxHeaderBytes
	s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: maxStreams}
	s.ErrorLog = telemetry.ServerErrors(logger)
	if certificate != nil {
		s.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*certificate}}
	}
}

// run serves until the server is stopped, which is no error.
func (s *server) run() error {
	var err error
	if s.TLSConfig != nil {
		err = s.ServeTLS(s.listener, "", "") // offers HTTP/2
	} else {
		err = s.Serve(s.listener)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("%s: %w", s.name, err)
}

// drain stops accepting and waits for the requests that run. Those that outlast ctx are broken off.
func (s *server) drain(ctx context.Context, logger *slog.Logger) {
	if err := s.Shutdown(ctx); err != nil {
		logger.Warn("requests were broken off", "listener", s.name, "cause", err)
		_ = s.Close() // first: what then ends before its time has nobody to answer
		s.breakOff()
	}
}
