package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

const (
	dialLimit     = 10 * time.Second // with the handshake: a flooded server is slow to accept
	responseLimit = 10 * time.Second // longer than the service takes for any response
)

// endpoint is where a server listens; without roots it speaks plain HTTP.
type endpoint struct {
	address string
	roots   *x509.CertPool
}

func (e endpoint) dial(protocol string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: dialLimit}
	if e.roots == nil {
		return dialer.Dial("tcp", e.address)
	}
	return tls.DialWithDialer(dialer, "tcp", e.address, &tls.Config{
		RootCAs: e.roots, ServerName: "localhost", MinVersion: tls.VersionTLS13, NextProtos: []string{protocol},
	})
}

// wire is an HTTP/1.1 connection on which requests are written as they are. An http.Client would take more of the processors
// that are being measured.
type wire struct {
	net.Conn
	reader *bufio.Reader
	body   bytes.Buffer
	last   bool // the server closes the connection after this response
}

func (e endpoint) connect() (*wire, error) {
	conn, err := e.dial("http/1.1")
	if err != nil {
		return nil, err
	}
	return &wire{Conn: conn, reader: bufio.NewReaderSize(conn, 64<<10)}, nil
}

// send sends a request and reads its response. The body is valid until the next one.
func (w *wire) send(request string) (status int, body []byte, err error) {
	if err := w.SetDeadline(time.Now().Add(responseLimit)); err != nil {
		return 0, nil, err
	}
	if _, err := io.WriteString(w, request); err != nil {
		return 0, nil, err
	}
	response, err := http.ReadResponse(w.reader, nil)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	w.last = response.Close
	w.body.Reset()
	if _, err := w.body.ReadFrom(response.Body); err != nil {
		return 0, nil, err
	}
	return response.StatusCode, w.body.Bytes(), nil
}

// ask sends a request over a connection of its own.
func (e endpoint) ask(request string) (status int, body []byte, err error) {
	w, err := e.connect()
	if err != nil {
		return 0, nil, err
	}
	defer w.Close() //nolint:errcheck // all was read
	return w.send(request)
}

func statusError(status, want int, body []byte) error {
	return fmt.Errorf("status %d, want %d: %s", status, want, body)
}

// discovery is the request for a page that costs the service nothing but HTTP.
var discovery = getRequest("/.well-known/oauth-authorization-server", "")

func getRequest(path, token string) string {
	request := "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n"
	if token != "" {
		request += "Authorization: Bearer " + token + "\r\n"
	}
	return request + "\r\n"
}

func formRequest(path string, client int, form string) string {
	credentials := base64.StdEncoding.EncodeToString([]byte(clientID(client).String() + ":" + secret))
	return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic " + credentials +
		"\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: " + fmt.Sprint(len(form)) + "\r\n\r\n" + form
}

func refreshRequest(client int, refreshToken string) string {
	return formRequest("/oauth/token", client, "grant_type=refresh_token&refresh_token="+refreshToken)
}

func exchangeRequest(client int, code string) string {
	return formRequest("/oauth/token", client, "grant_type=authorization_code&code="+code+
		"&redirect_uri="+url.QueryEscape(callback)+"&code_verifier="+verifier)
}
