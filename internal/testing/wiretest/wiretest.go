// Package wiretest sends requests as bytes of HTTP/1.1 and as frames of HTTP/2, for what no client library sends: a body of which only the
// framing arrives, a field on two lines, a target in another form. It reads the answers with libraries of other people.
package wiretest

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"connect-svc/internal/testing/wait"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Answer is a whole response. Without a status there was none: the server closed the connection, or reset the stream.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Dial connects to a server that has the certificate of a test. Without protocols it speaks plain TCP, otherwise TLS that offers them.
func Dial(t testing.TB, address string, protocols ...string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(wait.Limit))
	if len(protocols) == 0 {
		return conn
	}
	secured := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: protocols}) //nolint:gosec // it is a server of the test
	if err := secured.Handshake(); err != nil {
		t.Fatal(err)
	}
	return secured
}

// HTTP1 sends text, whose lines end with LF here and with CRLF on the wire, and reads one answer. The body of the request follows the
// first empty line, and is sent as it is.
func HTTP1(t testing.TB, conn net.Conn, text string) Answer {
	t.Helper()
	head, body, _ := strings.Cut(text, "\n\n")
	go func() { // a server may answer, and close, before it has read all
		_, _ = io.WriteString(conn, strings.ReplaceAll(head, "\n", "\r\n")+"\r\n\r\n"+body)
	}()
	method, _, _ := strings.Cut(head, " ")
	reader := bufio.NewReader(conn)
	for {
		response, err := http.ReadResponse(reader, &http.Request{Method: method})
		if err != nil {
			return Answer{}
		}
		content, err := io.ReadAll(response.Body)
		_ = response.Body.Close() // the connection stays open
		if err != nil {
			t.Fatalf("the body of the answer: %v", err)
		}
		if response.StatusCode >= http.StatusOK {
			return Answer{response.StatusCode, response.Header, string(content)}
		}
	}
}

// Frames send what follows the headers of a stream.
type Frames func(framer *http2.Framer, stream uint32) error

// Ended says that the stream ends with its headers.
var Ended Frames

// Data sends a frame for each part; the last one ends the stream.
func Data(parts ...string) Frames {
	return func(framer *http2.Framer, stream uint32) error {
		for i, part := range parts {
			if err := framer.WriteData(stream, i == len(parts)-1, []byte(part)); err != nil {
				return err
			}
		}
		return nil
	}
}

// Trailer sends a field after a body without data, which ends the stream.
func Trailer(name, value string) Frames {
	return func(framer *http2.Framer, stream uint32) error {
		return framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: Block(name, value), EndHeaders: true, EndStream: true})
	}
}

// Open sends nothing, and leaves the stream open.
func Open(*http2.Framer, uint32) error { return nil }

// Block encodes the names and values of fields in turn, for a header frame.
func Block(fields ...string) []byte {
	var encoded bytes.Buffer
	encoder := hpack.NewEncoder(&encoded)
	for i := 0; i < len(fields); i += 2 {
		_ = encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}) // a buffer takes all
	}
	return encoded.Bytes()
}

// HTTP2 sends a request on a new connection, with the names and values of its fields in turn, and reads the answer.
func HTTP2(t testing.TB, conn net.Conn, follow Frames, fields ...string) Answer {
	t.Helper()
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	const stream = 1
	_, err := io.WriteString(conn, http2.ClientPreface)
	if err == nil {
		err = framer.WriteSettings()
	}
	if err == nil {
		err = framer.WriteHeaders(http2.HeadersFrameParam{
			StreamID: stream, BlockFragment: Block(fields...), EndHeaders: true, EndStream: follow == nil,
		})
	}
	if err == nil && follow != nil {
		err = follow(framer, stream)
	}
	if err != nil {
		t.Fatal(err)
	}
	answer := Answer{Header: http.Header{}}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return answer
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				_ = framer.WriteSettingsAck()
			}
		case *http2.MetaHeadersFrame:
			answer.read(frame)
			if answer.Status >= http.StatusOK && frame.StreamEnded() {
				return answer
			}
		case *http2.DataFrame:
			answer.Body += string(frame.Data())
			if frame.StreamEnded() {
				return answer
			}
		case *http2.RSTStreamFrame:
			return answer
		case *http2.GoAwayFrame:
			if frame.LastStreamID < stream {
				return answer
			}
		}
	}
}

func (a *Answer) read(frame *http2.MetaHeadersFrame) {
	for _, field := range frame.Fields {
		if field.Name == ":status" {
			a.Status, _ = strconv.Atoi(field.Value)
			continue
		}
		a.Header.Add(field.Name, field.Value)
	}
	if a.Status < http.StatusOK {
		a.Header = http.Header{} // of an interim response
	}
}

// Kept1 is one connection of HTTP/1.1, for requests one after the other.
type Kept1 struct {
	conn   net.Conn
	Reader *bufio.Reader
}

// Keep1 speaks HTTP/1.1 on a connection.
func Keep1(conn net.Conn) *Kept1 { return &Kept1{conn, bufio.NewReader(conn)} }

// Ask returns the status of the answer to a GET, and whether it says that the connection ends.
func (c *Kept1) Ask(t testing.TB, path string) (status int, closes bool) {
	t.Helper()
	if _, err := io.WriteString(c.conn, "GET "+path+" HTTP/1.1\r\nHost: connect.example.com\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(c.Reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Close
}

// Kept2 is one connection of HTTP/2, frame by frame.
type Kept2 struct {
	Framer *http2.Framer
	text   strings.Builder // of headers that are being encoded
}

// Keep2 speaks HTTP/2 on a connection.
func Keep2(t testing.TB, conn net.Conn) *Kept2 {
	t.Helper()
	c := &Kept2{Framer: http2.NewFramer(conn, conn)}
	c.Framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := c.Framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return c
}

// Ask returns the status of the answer to a GET on a new stream, and whether a GOAWAY came by its end. A GOAWAY is awaited for longer if
// it is expected, which is from the second stream on.
func (c *Kept2) Ask(t testing.TB, path string, stream uint32) (status string, away bool) {
	t.Helper()
	c.text.Reset()
	encoder := hpack.NewEncoder(&c.text)
	for _, field := range []hpack.HeaderField{
		{Name: ":method", Value: http.MethodGet}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "connect.example.com"}, {Name: ":path", Value: path},
	} {
		if err := encoder.WriteField(field); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: []byte(c.text.String()), EndStream: true, EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
	for done := false; !done || stream > 1 && !away; {
		frame, err := c.Framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			status = frame.PseudoValue("status")
			done = frame.StreamEnded()
		case *http2.DataFrame:
			done = frame.StreamEnded()
		case *http2.GoAwayFrame:
			away = frame.ErrCode == http2.ErrCodeNo && frame.LastStreamID >= stream
		}
	}
	return status, away
}
