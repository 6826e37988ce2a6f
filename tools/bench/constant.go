package main

import (
	"bytes"
	"context"
	"net/http"
	"path/filepath"
	"strconv"
)

// constantCommand shows what net/http can do here at most: GET /123 has 123 bytes.
type constantCommand struct {
	Authority  string `arg:"" help:"Directory of the certificate authority."`
	TLS, Plain string `arg:"" help:"Address to listen on."`
}

// Run serves until ctx ends.
func (c *constantCommand) Run(ctx context.Context) error {
	content := bytes.Repeat([]byte("x"), 1<<20)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size, err := strconv.Atoi(r.URL.Path[1:])
		if err != nil || size < 0 || size > len(content) {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(size))
		_, _ = w.Write(content[:size]) // the load generator counts what arrives
	})
	secure := &http.Server{Addr: c.TLS, Handler: handler, ReadHeaderTimeout: responseLimit}
	plain := &http.Server{Addr: c.Plain, Handler: handler, ReadHeaderTimeout: responseLimit}
	failed := make(chan error, 2)
	go func() {
		failed <- secure.ListenAndServeTLS(filepath.Join(c.Authority, "server.pem"), filepath.Join(c.Authority, "server-key.pem"))
	}()
	go func() { failed <- plain.ListenAndServe() }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}
