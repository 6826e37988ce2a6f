package wiretest

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/time/rate"
)

// Siege are connections from addresses of this machine that ask a server for a revocation without credentials, again and again. They
// begin anew what ends.
type Siege struct {
	Server      string // address
	Networks    []netip.Addr
	Connections int // of each network
	HTTP2       bool
	TLS         bool
	Slow        bool // the body stops after its first byte

	Asked atomic.Int64 // requests
}

// besiegingStreams is how many requests a connection of HTTP/2 has under way: as many as the service allows.
const besiegingStreams = 16

const besiegingBody = 900 // bytes

// begunAnew is how many connections a second begin anew. Without a bound their handshakes would take the time of the machine, which is the server's, too.
const begunAnew = 500

// Lay asks until ctx ends.
func (s *Siege) Lay(ctx context.Context) {
	var all sync.WaitGroup
	begin := rate.NewLimiter(begunAnew, len(s.Networks)*s.Connections)
	for _, from := range s.Networks {
		for range s.Connections {
			all.Go(func() {
				for begin.Wait(ctx) == nil {
					if conn, err := s.dial(ctx, from); err == nil {
						stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
						s.ask(conn) // until it fails
						stop()
						_ = conn.Close()
					}
				}
			})
		}
	}
	all.Wait()
}

// dial gives up after a while, as the queue of the listener may be full.
func (s *Siege) dial(ctx context.Context, from netip.Addr) (net.Conn, error) {
	dialer := &net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), Timeout: 10 * time.Second}
	if !s.TLS {
		return dialer.DialContext(ctx, "tcp", s.Server)
	}
	protocol := "http/1.1"
	if s.HTTP2 {
		protocol = "h2"
	}
	secured := tls.Dialer{NetDialer: dialer, Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}}} //nolint:gosec // it is a server of the test
	return secured.DialContext(ctx, "tcp", s.Server)
}

func (s *Siege) ask(conn net.Conn) {
	body := strings.Repeat("a", besiegingBody)
	if s.Slow {
		body = body[:1]
	}
	if s.HTTP2 {
		s.ask2(conn, body)
		return
	}
	reader := bufio.NewReader(conn)
	for {
		s.Asked.Add(1)
		if _, err := fmt.Fprintf(conn, "POST /oauth/revoke HTTP/1.1\r\nHost: connect.example.com\r\nContent-Type: application/x-www-form-urlencoded\r\n"+
			"Content-Length: %d\r\n\r\n%s", besiegingBody, body); err != nil {
			return
		}
		answer, err := http.ReadResponse(reader, nil)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		if s.Slow || answer.Close {
			return
		}
	}
}

func (s *Siege) ask2(conn net.Conn, body string) {
	framer := http2.NewFramer(conn, conn)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return
	}
	err := framer.WriteSettings()
	fields := Block(":method", "POST", ":scheme", "https", ":authority", "connect.example.com", ":path", "/oauth/revoke",
		"content-type", "application/x-www-form-urlencoded", "content-length", fmt.Sprint(besiegingBody))
	next := uint32(1)
	begin := func() error {
		s.Asked.Add(1)
		stream := next
		next += 2
		if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: fields, EndHeaders: true}); err != nil {
			return err
		}
		return framer.WriteData(stream, !s.Slow, []byte(body))
	}
	for range besiegingStreams {
		if err == nil {
			err = begin()
		}
	}
	for err == nil {
		var frame http2.Frame
		if frame, err = framer.ReadFrame(); err != nil {
			return
		}
		ended := false
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				err = framer.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !frame.IsAck() {
				err = framer.WritePing(true, frame.Data)
			}
		case *http2.HeadersFrame:
			ended = frame.StreamEnded()
		case *http2.DataFrame:
			ended = frame.StreamEnded()
			if n := len(frame.Data()); n > 0 {
				err = framer.WriteWindowUpdate(0, uint32(n))
			}
		case *http2.RSTStreamFrame:
			ended = frame.ErrCode != http2.ErrCodeNo // that follows an answer
		case *http2.GoAwayFrame:
			return
		}
		if ended && err == nil {
			err = begin()
		}
	}
}
