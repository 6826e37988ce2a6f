package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// aborter opens HTTP/2 streams, in turns for each of its requests, and resets them. It keeps to the protocol: no more
// streams at a time than the server allows, and a new connection where the server ends one.
type aborter struct {
	address  string
	roots    []byte
	requests []abortedRequest
	most     int           // streams at a time on a connection, where the server allows more
	after    time.Duration // until a stream is reset

	opened, answered, refused, connected atomic.Int64
}

type abortedRequest struct{ path, token string }

// run keeps so many connections until an end.
func (a *aborter) run(connections int, end time.Time) error {
	var group sync.WaitGroup
	failures := make(chan error, connections)
	for range connections {
		group.Go(func() {
			for time.Now().Before(end) {
				if err := a.session(end); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(failures)
	return <-failures
}

// session is one connection, until an end or until the server has enough of it. That we cannot connect is an error.
func (a *aborter) session(end time.Time) error {
	conn, err := dialProtocol(a.address, a.roots, "h2")
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
	if err := c.greet(); err != nil {
		return fmt.Errorf("HTTP/2: %w", err)
	}
	a.connected.Add(1)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		c.read()
	}()
	c.write(end, gone)
	_ = conn.Close()
	<-gone
	return nil
}

// abortConn is a connection of an aborter. One goroutine reads and another writes.
type abortConn struct {
	*aborter
	mu     sync.Mutex // protects what follows, but for reading from framer
	out    *bufio.Writer
	framer *http2.Framer
	most   int
	open   map[uint32]struct{} // streams that are neither answered nor reset
}

// greet exchanges the prefaces. We take all that comes: what is answered is small, and few are.
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
	return c.take(settings)
}

func (c *abortConn) take(settings *http2.SettingsFrame) error {
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

// read follows what the server says, until it says GOAWAY or the connection ends.
func (c *abortConn) read() {
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil || !c.follow(frame) {
			return
		}
	}
}

func (c *abortConn) follow(frame http2.Frame) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch frame := frame.(type) {
	case *http2.SettingsFrame:
		return c.take(frame) == nil
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

// write opens as many streams as it may, and resets each when it is due.
func (c *abortConn) write(end time.Time, gone <-chan struct{}) {
	type due struct {
		stream uint32
		at     time.Time
	}
	var queue []due // in the order of their instants
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	step := func(next uint32) (uint32, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		now := time.Now()
		for len(queue) > 0 && !queue[0].at.After(now) {
			stream := queue[0].stream
			queue = queue[1:]
			if _, open := c.open[stream]; !open {
				continue
			}
			delete(c.open, stream)
			if err := c.framer.WriteRSTStream(stream, http2.ErrCodeCancel); err != nil {
				return next, err
			}
		}
		for ; len(c.open) < c.most; next += 2 {
			block.Reset()
			if err := c.requests[int(next/2)%len(c.requests)].encode(encoder); err != nil {
				return next, err
			}
			if err := c.framer.WriteHeaders(http2.HeadersFrameParam{
				StreamID: next, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true,
			}); err != nil {
				return next, err
			}
			c.open[next] = struct{}{}
			c.opened.Add(1)
			queue = append(queue, due{next, now.Add(c.after)})
		}
		return next, c.out.Flush()
	}
	// The ids of streams are odd, and have 31 bits.
	for next := uint32(1); next < 1<<31-1<<16 && time.Now().Before(end); {
		var err error
		if next, err = step(next); err != nil {
			return
		}
		wake := time.Now().Add(c.after)
		if len(queue) > 0 {
			wake = queue[0].at
		}
		if !until(wake, gone) {
			return
		}
	}
}

func (r abortedRequest) encode(encoder *hpack.Encoder) error {
	fields := []hpack.HeaderField{
		{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "localhost"},
		{Name: ":path", Value: r.path},
	}
	if r.token != "" {
		fields = append(fields, hpack.HeaderField{Name: "authorization", Value: "Bearer " + r.token})
	}
	for _, field := range fields {
		if err := encoder.WriteField(field); err != nil {
			return err
		}
	}
	return nil
}
