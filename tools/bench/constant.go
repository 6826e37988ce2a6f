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
	Database   string `arg:"" help:"URL of the database of the bare handlers."`
}

var constantContent = bytes.Repeat([]byte("x"), 1<<20)

func writeConstant(w http.ResponseWriter, r *http.Request) {
	size, err := strconv.Atoi(r.PathValue("size"))
	if err != nil || size < 0 || size > len(constantContent) {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(size))
	_, _ = w.Write(constantContent[:size]) // the load generator counts what arrives
}

// Run serves until ctx ends.
func (c *constantCommand) Run(ctx context.Context) error {
	bare, err := bareHandlers(ctx, c.Database)
	if err != nil {
		return err
	}
	handler := http.NewServeMux()
	handler.HandleFunc("/{size}", writeConstant)
	handler.HandleFunc("/{size}/{operation}/{u}/{c}/{n}", bare)
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
