package wiretest

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

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
