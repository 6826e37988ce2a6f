package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
)

// constant is what the server of constants is told: the size of its answer and the certificate of its TLS listener.
type constant struct {
	Size              int
	Certificate, Key  []byte // PEM
	TLSAddr, PlainTCP string // filled in by the server and printed
}

// serveConstant answers every request with bytes of a size: what net/http can do here at most.
func serveConstant(ctx context.Context, in io.Reader, out io.Writer) error {
	var c constant
	if err := json.NewDecoder(in).Decode(&c); err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(c.Certificate, c.Key)
	if err != nil {
		return err
	}
	secure, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	answer := make([]byte, c.Size)
	for i := range answer {
		answer[i] = 'x'
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		_, _ = w.Write(answer) // the load generator counts what arrives
	})}
	server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	c.TLSAddr, c.PlainTCP = secure.Addr().String(), plain.Addr().String()
	c.Certificate, c.Key = nil, nil
	if err := json.NewEncoder(out).Encode(c); err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	failed := make(chan error, 2)
	go func() { failed <- server.ServeTLS(secure, "", "") }()
	go func() { failed <- server.Serve(plain) }()
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
