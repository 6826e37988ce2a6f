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

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"connect-svc/internal/testing/wait"
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
		return framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block(name, value), EndHeaders: true, EndStream: true})
	}
}

// Open sends nothing, and leaves the stream open.
func Open(*http2.Framer, uint32) error { return nil }

func block(fields ...string) []byte {
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
			StreamID: stream, BlockFragment: block(fields...), EndHeaders: true, EndStream: follow == nil,
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
