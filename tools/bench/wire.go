package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	dialLimit   = 10 * time.Second // the handshake with it: a flooded server is slow to accept
	answerLimit = 10 * time.Second // longer than the service takes for any answer
)

// wire is an HTTP/1.1 connection, on which requests are written as they are.
type wire struct {
	net.Conn
	reader *bufio.Reader
	last   bool // the server closes the connection after this answer
}

// dial connects, over TLS where there are roots (PEM).
func dial(address string, roots []byte) (*wire, error) {
	conn, err := dialProtocol(address, roots, "http/1.1")
	if err != nil {
		return nil, err
	}
	return &wire{Conn: conn, reader: bufio.NewReaderSize(conn, 64<<10)}, nil
}

func dialProtocol(address string, roots []byte, protocol string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: dialLimit}
	if len(roots) == 0 {
		return dialer.Dial("tcp", address)
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(roots) {
		return nil, errors.New("no certificate to trust")
	}
	return tls.DialWithDialer(dialer, "tcp", address, &tls.Config{
		RootCAs: trusted, ServerName: "localhost", MinVersion: tls.VersionTLS13, NextProtos: []string{protocol},
	})
}

// ask sends a request. The body of the answer must be read before the next one.
func (w *wire) ask(request string) (*http.Response, error) {
	if _, err := io.WriteString(w, request); err != nil {
		return nil, err
	}
	response, err := http.ReadResponse(w.reader, nil)
	if err != nil {
		return nil, err
	}
	w.last = response.Close
	return response, nil
}

// answer sends a request and reads the whole answer, in limited time.
func (w *wire) answer(request string) (status int, body []byte, err error) {
	if err := w.SetDeadline(time.Now().Add(answerLimit)); err != nil {
		return 0, nil, err
	}
	response, err := w.ask(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	if body, err = io.ReadAll(response.Body); err != nil {
		return 0, nil, err
	}
	return response.StatusCode, body, nil
}
