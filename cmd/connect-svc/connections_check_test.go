//go:build check

package main

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/wait"
)

// Thousands of connections from one network, idle or with as many requests as they may have, do not take the memory of a small
// container, and requests from another network are answered meanwhile. When they have gone, there is room for as many as before.
func TestMemoryOfConnections(t *testing.T) {
	t.Parallel()
	const container, attempts = 192, 4_200 // MiB, connections
	program := buildReleased(t)
	cert, key, roots := certificateFiles(t)
	for name, speak := range map[string]func(conn net.Conn) error{
		"idle":    func(conn net.Conn) error { return openStreams(conn, 0) },
		"streams": func(conn net.Conn) error { return openStreams(conn, 16) },
	} {
		t.Run(name, func(t *testing.T) {
			s, cmd, kill := serveIn(t, program, container, "CONNECT_TLS_CERT="+cert, "CONNECT_TLS_KEY="+key)
			defer kill()
			flood := &tls.Dialer{
				NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: wait.Limit},
				Config:    &tls.Config{RootCAs: roots, NextProtos: []string{"h2"}},
			}
			other := &http.Client{Timeout: wait.Limit, Transport: &http.Transport{
				DialContext:       (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 3)}}).DialContext,
				TLSClientConfig:   &tls.Config{RootCAs: roots},
				DisableKeepAlives: true,
			}}
			var dialling sync.WaitGroup
			var mu sync.Mutex
			var open []net.Conn
			left := make(chan struct{}, attempts)
			for range 16 {
				dialling.Go(func() {
					for range left {
						conn, err := flood.DialContext(t.Context(), "tcp", s.public)
						if err != nil {
							continue
						}
						_ = speak(conn) // the service may have closed it
						mu.Lock()
						open = append(open, conn)
						mu.Unlock()
					}
				})
			}
			for n := range attempts {
				left <- struct{}{}
				if n%100 > 0 {
					continue
				}
				answer, err := other.Get("https://" + s.public + "/.well-known/oauth-authorization-server")
				if err != nil {
					t.Errorf("another network, at %d connections: %v", n, err)
					continue
				}
				_ = answer.Body.Close()
			}
			close(left)
			dialling.Wait()
			most := peak(t, cmd)
			t.Logf("%d of %d connected, %d MiB at most", len(open), attempts, most)
			if most > container {
				t.Errorf("%d MiB at most, in a container of %d MiB", most, container)
			}
			for _, conn := range open {
				_ = conn.Close()
			}
			wait.Until(t, "all are closed", func() bool {
				_, metrics := edgetest.GetAnew(t, "http://"+s.private+"/metrics")
				return bytes.Contains([]byte(metrics), []byte("\nconnect_http_connections{listener=\"public\"} 0\n"))
			})
		})
	}
}

// openStreams opens a connection of HTTP/2 and requests whose bodies do not end.
func openStreams(conn net.Conn, streams uint32) error {
	framer := http2.NewFramer(conn, conn)
	_, _ = io.WriteString(conn, http2.ClientPreface)
	if err := framer.WriteSettings(); err != nil {
		return err
	}
	var text bytes.Buffer
	encoder := hpack.NewEncoder(&text)
	for n := range streams {
		text.Reset()
		for _, field := range []hpack.HeaderField{
			{Name: ":method", Value: http.MethodPost}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "connect.example.com"},
			{Name: ":path", Value: "/oauth/token"}, {Name: "content-type", Value: "application/x-www-form-urlencoded"},
		} {
			_ = encoder.WriteField(field) // to a buffer
		}
		if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*n + 1, BlockFragment: text.Bytes(), EndHeaders: true}); err != nil {
			return err
		}
		if err := framer.WriteData(2*n+1, false, bytes.Repeat([]byte("a"), 3_000)); err != nil {
			return err
		}
	}
	return nil
}
