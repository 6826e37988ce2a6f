package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"connect-svc/internal/local/authority"
)

// serveConstant shows what net/http can do here at most: GET /123 has 123 bytes. The arguments are the directory of the
// certificate authority, an address for TLS and one for plain HTTP.
func serveConstant(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return errors.New("constant takes a directory and two addresses")
	}
	local, err := authority.Open(args[0], time.Now())
	if err != nil {
		return err
	}
	secure, err := tls.Listen("tcp", args[1], &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{local.Server}})
	if err != nil {
		return err
	}
	plain, err := net.Listen("tcp", args[2])
	if err != nil {
		return err
	}
	content := bytes.Repeat([]byte("x"), 1<<20)
	server := &http.Server{ReadHeaderTimeout: responseLimit, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size, err := strconv.Atoi(r.URL.Path[1:])
		if err != nil || size < 0 || size > len(content) {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(size))
		_, _ = w.Write(content[:size]) // the load generator counts what arrives
	})}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	failed := make(chan error, 2)
	go func() { failed <- server.Serve(secure) }()
	go func() { failed <- server.Serve(plain) }()
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
