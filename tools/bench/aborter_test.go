package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connect-svc/internal/local/authority"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/sync/errgroup"
)

// aborter opens HTTP/2 streams, in turns for each of its requests, and resets them. It writes the frames itself, because an http.Transport
// waits for the server after a reset. It reads no answer.
type aborter struct {
	endpoint endpoint
	requests []request
	streams  int           // at a time on a connection: no more than the server allows
	after    time.Duration // until they are reset

	reset, connected atomic.Int64 // streams, connections
}

// run keeps so many connections until an end. A connection that can not be made is an error.
func (a *aborter) run(connections int, end time.Time) error {
	var group errgroup.Group
	for range connections {
		group.Go(func() error {
			for time.Now().Before(end) {
				conn, err := tls.DialWithDialer(&net.Dialer{Timeout: responseLimit}, "tcp", a.endpoint.address, &tls.Config{
					RootCAs: a.endpoint.roots, ServerName: "localhost", MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"},
				})
				if err != nil {
					return err
				}
				a.connected.Add(1)
				_ = a.abort(conn, end) // the server ends a connection when it likes
			}
			return nil
		})
	}
	return group.Wait()
}

// abort opens and resets streams of a connection, until an end or until the server ends it.
func (a *aborter) abort(conn net.Conn, end time.Time) error {
	defer conn.Close() //nolint:errcheck // whatever is under way is broken off, too
	// A write that the server does not take ends with the case.
	if err := conn.SetDeadline(end.Add(time.Second)); err != nil {
		return err
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, conn)
	}()
	out := bufio.NewWriterSize(conn, 16<<10)
	framer := http2.NewFramer(out, nil)
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	_, err := io.WriteString(out, http2.ClientPreface)
	err = errors.Join(err, framer.WriteSettings(), framer.WriteWindowUpdate(0, 1<<30))
	// The ids of streams are odd, and have 31 bits.
	for next := uint32(1); err == nil && next < 1<<31-1<<16 && time.Now().Before(end); {
		first := next
		for ; next < first+2*uint32(a.streams); next += 2 {
			block.Reset()
			err = errors.Join(err, encode(encoder, a.requests[int(next/2)%len(a.requests)]), framer.WriteHeaders(http2.HeadersFrameParam{
				StreamID: next, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true,
			}))
		}
		if err = errors.Join(err, out.Flush()); err != nil || !until(time.Now().Add(a.after), gone) {
			break
		}
		for stream := first; stream < next; stream += 2 {
			err = errors.Join(err, framer.WriteRSTStream(stream, http2.ErrCodeCancel))
		}
		a.reset.Add(int64(a.streams))
	}
	return err
}

// encode writes the headers of a request.
func encode(encoder *hpack.Encoder, r request) (err error) {
	write := func(name, value string) {
		err = errors.Join(err, encoder.WriteField(hpack.HeaderField{Name: name, Value: value}))
	}
	write(":method", r.verb())
	write(":scheme", "https")
	write(":authority", "localhost")
	write(":path", r.path)
	for name, value := range r.headers() {
		write(strings.ToLower(name), value)
	}
	return err
}

// abortAt lets an aborter work until it has done enough, for a minute at most, with resets after a time.
func abortAt(t *testing.T, after time.Duration, enough func(*aborter) bool, handler http.HandlerFunc) *aborter {
	t.Helper()
	trusted, err := authority.Open(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2, server.TLS = true, &tls.Config{Certificates: []tls.Certificate{trusted.Server}, MinVersion: tls.VersionTLS13}
	server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 5}
	server.StartTLS()
	t.Cleanup(server.Close)
	a := &aborter{
		endpoint: endpoint{server.Listener.Addr().String(), trusted.Roots}, streams: 5, after: after,
		requests: []request{{path: "/page"}, {path: "/read", authorization: "Bearer a"}},
	}
	for limit := time.Now().Add(time.Minute); !enough(a) && time.Now().Before(limit); {
		if err := a.run(2, time.Now().Add(200*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

func TestAborterResetsWhatItOpens(t *testing.T) {
	t.Parallel()
	var pages, reads, ended atomic.Int64
	enough := func(*aborter) bool { return pages.Load() > 0 && reads.Load() > 0 && ended.Load() > 10 }
	a := abortAt(t, time.Millisecond, enough, func(_ http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/page" && r.Header.Get("Authorization") == "":
			pages.Add(1)
		case r.URL.Path == "/read" && r.Header.Get("Authorization") == "Bearer a":
			reads.Add(1)
		}
		<-r.Context().Done()
		ended.Add(1)
	})
	if !enough(a) || a.reset.Load() <= 10 {
		t.Errorf("%d pages and %d reads came, %d ended, %d were reset", pages.Load(), reads.Load(), ended.Load(), a.reset.Load())
	}
}

func TestAborterConnectsAgain(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	a := abortAt(t, 10*time.Millisecond, func(a *aborter) bool { return a.connected.Load() > 2 && requests.Load() > 20 }, func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1)%20 == 0 {
			w.Header().Set("Connection", "close") // GOAWAY, in HTTP/2
		}
	})
	if a.connected.Load() <= 2 || requests.Load() <= 20 {
		t.Errorf("%d connections, %d requests", a.connected.Load(), requests.Load())
	}
}
