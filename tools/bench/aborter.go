package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/sync/errgroup"
)

// aborter opens HTTP/2 streams, in turns for each of its requests, and resets them. It keeps to the protocol: no more
// streams at a time than the server allows, and a new connection where the server ends one. It writes the frames itself,
// because an http.Transport waits for the server after a reset.
type aborter struct {
	endpoint endpoint
	requests []request
	most     int           // streams at a time on a connection, where the server allows more
	after    time.Duration // until a stream is reset

	opened, answered, refused, connected atomic.Int64
}

// run keeps so many connections until an end.
func (a *aborter) run(connections int, end time.Time) error {
	var group errgroup.Group
	for range connections {
		group.Go(func() error {
			for time.Now().Before(end) {
				if err := a.session(end); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func (a *aborter) dial() (net.Conn, error) {
	dialer := &net.Dialer{Timeout: responseLimit}
	if a.endpoint.roots == nil {
		return dialer.Dial("tcp", a.endpoint.address)
	}
	return tls.DialWithDialer(dialer, "tcp", a.endpoint.address, &tls.Config{
		RootCAs: a.endpoint.roots, ServerName: "localhost", MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"},
	})
}

// session is one connection, until an end or until the server ends it. A connection that can not be made is an error.
func (a *aborter) session(end time.Time) error {
	conn, err := a.dial()
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // whatever is under way is broken off, too
	// A write that the server does not take ends with the case.
	if err := conn.SetDeadline(end.Add(time.Second)); err != nil {
		return err
	}
	out := bufio.NewWriterSize(conn, 16<<10)
	c := &abortConn{aborter: a, out: out, framer: http2.NewFramer(out, bufio.NewReader(conn)), open: map[uint32]struct{}{}}
	c.encoder = hpack.NewEncoder(&c.block)
	if err := c.greet(); err != nil {
		return fmt.Errorf("HTTP/2: %w", err)
	}
	a.connected.Add(1)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for {
			frame, err := c.framer.ReadFrame()
			if err != nil || !c.follow(frame) {
				return
			}
		}
	}()
	// The ids of streams are odd, and have 31 bits.
	for next := uint32(1); next < 1<<31-1<<16 && time.Now().Before(end); {
		if next, err = c.replace(next); err != nil || !until(time.Now().Add(a.after), gone) {
			break
		}
	}
	_ = conn.Close()
	<-gone
	return nil
}

// abortConn is a connection of an aborter. One goroutine reads and another writes.
type abortConn struct {
	*aborter
	mu      sync.Mutex // protects what follows, but for reading from framer
	out     *bufio.Writer
	framer  *http2.Framer
	block   bytes.Buffer
	encoder *hpack.Encoder // to block
	most    int
	open    map[uint32]struct{} // streams that are neither answered nor reset
}

// greet exchanges the prefaces. The window is open for all that comes: few responses do, and they are small.
func (c *abortConn) greet() error {
	if _, err := io.WriteString(c.out, http2.ClientPreface); err != nil {
		return err
	}
	if err := c.framer.WriteSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 0}); err != nil {
		return err
	}
	if err := c.framer.WriteWindowUpdate(0, 1<<30); err != nil {
		return err
	}
	if err := c.out.Flush(); err != nil {
		return err
	}
	frame, err := c.framer.ReadFrame()
	if err != nil {
		return err
	}
	settings, first := frame.(*http2.SettingsFrame)
	if !first {
		return fmt.Errorf("the server begins with a frame of %v", frame.Header().Type)
	}
	c.most = c.aborter.most
	return c.accept(settings)
}

func (c *abortConn) accept(settings *http2.SettingsFrame) error {
	if settings.IsAck() {
		return nil
	}
	if allowed, set := settings.Value(http2.SettingMaxConcurrentStreams); set {
		c.most = min(c.aborter.most, int(allowed))
	}
	if err := c.framer.WriteSettingsAck(); err != nil {
		return err
	}
	return c.out.Flush()
}

// follow does what the server's frame asks for. It is false when the connection ends.
func (c *abortConn) follow(frame http2.Frame) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch frame := frame.(type) {
	case *http2.SettingsFrame:
		return c.accept(frame) == nil
	case *http2.PingFrame:
		return frame.IsAck() || c.framer.WritePing(true, frame.Data) == nil && c.out.Flush() == nil
	case *http2.GoAwayFrame:
		return false
	case *http2.RSTStreamFrame:
		delete(c.open, frame.StreamID)
		c.refused.Add(1)
	case *http2.HeadersFrame:
		c.ended(frame.StreamID, frame.StreamEnded())
	case *http2.DataFrame:
		c.ended(frame.StreamID, frame.StreamEnded())
	}
	return true
}

func (c *abortConn) ended(stream uint32, ended bool) {
	if _, open := c.open[stream]; open && ended {
		delete(c.open, stream)
		c.answered.Add(1)
	}
}

// replace resets the open streams and opens as many as it may, from an id on. It returns the id that is next.
func (c *abortConn) replace(next uint32) (uint32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for stream := range c.open {
		if err := c.framer.WriteRSTStream(stream, http2.ErrCodeCancel); err != nil {
			return next, err
		}
	}
	clear(c.open)
	for ; len(c.open) < c.most; next += 2 {
		c.block.Reset()
		if err := encode(c.encoder, c.requests[int(next/2)%len(c.requests)]); err != nil {
			return next, err
		}
		if err := c.framer.WriteHeaders(http2.HeadersFrameParam{
			StreamID: next, BlockFragment: c.block.Bytes(), EndStream: true, EndHeaders: true,
		}); err != nil {
			return next, err
		}
		c.open[next] = struct{}{}
		c.opened.Add(1)
	}
	return next, c.out.Flush()
}

// encode writes the headers of a request.
func encode(encoder *hpack.Encoder, r request) error {
	fields := []hpack.HeaderField{
		{Name: ":method", Value: r.verb()}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "localhost"},
		{Name: ":path", Value: r.path},
	}
	for name, value := range r.headers() {
		fields = append(fields, hpack.HeaderField{Name: strings.ToLower(name), Value: value})
	}
	for _, field := range fields {
		if err := encoder.WriteField(field); err != nil {
			return err
		}
	}
	return nil
}
