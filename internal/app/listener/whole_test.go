package listener

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/wiretest"
)

// A handler gets a request when its body is there, and one that does not come in time with the mark that refuses it. A body that is longer
// than any of a stranger has more time. A caller that does not read its refusal is not waited for.
func TestWholeRequests(t *testing.T) {
	t.Parallel()
	now := time.Now()
	pair := edgetest.Certificate(t, "connect.example.com", now.Add(-time.Hour), now.Add(time.Hour))
	const pause = 4 * time.Second // less than limits.Head
	paused := func(parts ...string) []string { return parts }
	for name, test := range map[string]struct {
		length int
		parts  []string // sent with a pause before each
		deaf   bool     // reads no answer
		want   string
		after  time.Duration
	}{
		"whole":                            {3, paused("abc"), false, "200 3 bytes after 0s", pause},
		"in parts":                         {2, paused("a", ""), false, "503 refused after 0s", work.DefaultLimits.Head},
		"never":                            {2, nil, false, "503 refused after 0s", work.DefaultLimits.Head},
		"long, in parts":                   {3 * wholeBody, paused(strings.Repeat("a", wholeBody), strings.Repeat("a", wholeBody), strings.Repeat("a", wholeBody)), false, fmt.Sprintf("200 %d bytes after %s", 3*wholeBody, 2*pause), 3 * pause},
		"long, never":                      {3 * wholeBody, paused(strings.Repeat("a", wholeBody)), false, fmt.Sprintf("200 %d bytes after %s", wholeBody, work.DefaultLimits.Request), pause + work.DefaultLimits.Request},
		"never, of one that does not read": {2, nil, true, "reset", 2 * work.DefaultLimits.Head},
	} {
		for _, protocol := range []string{"http/1.1", "h2"} {
			if test.deaf && protocol != "h2" {
				continue // the refusal fits into what the kernel holds
			}
			t.Run(name+", "+protocol, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s, dial := openPipes(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if GotNoPlace(r) {
							w.WriteHeader(http.StatusServiceUnavailable)
							_, _ = fmt.Fprint(w, "refused after 0s")
							return
						}
						began := time.Now()
						n, _ := io.Copy(io.Discard, r.Body)
						_, _ = fmt.Fprintf(w, "%d bytes after %s", n, time.Since(began))
					}), pair, now)
					raw := dial()
					conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}})
					if err := conn.Handshake(); err != nil {
						t.Fatal(err)
					}
					began := time.Now()
					send := func(write func(string)) {
						for _, part := range test.parts {
							<-time.After(pause)
							write(part)
						}
					}
					got := ""
					if protocol == "h2" {
						got = ask2(t, conn, test.length, test.deaf, send)
					} else {
						go send(func(part string) { _, _ = io.WriteString(conn, part) })
						answer := wiretest.HTTP1(t, conn, fmt.Sprintf("POST / HTTP/1.1\nHost: a\nContent-Length: %d\n\n", test.length))
						got = fmt.Sprint(answer.Status, " ", answer.Body)
					}
					if took := time.Since(began).Truncate(100 * time.Millisecond); got != test.want || took != test.after {
						t.Errorf("%q after %s, want %q after %s", got, took, test.want, test.after)
					}
					<-time.After(time.Minute) // all has been sent
					_ = raw.Close()
					s.Drain(t.Context())
				})
			})
		}
	}
}

// The handler of a request whose body ends before its length is told so, at each read.
func TestBodyThatBreaksOff(t *testing.T) {
	t.Parallel()
	now := time.Now()
	pair := edgetest.Certificate(t, "connect.example.com", now.Add(-time.Hour), now.Add(time.Hour))
	synctest.Test(t, func(t *testing.T) {
		s, dial := openPipes(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			content, err := io.ReadAll(r.Body)
			_, again := io.ReadAll(r.Body)
			_, _ = fmt.Fprintf(w, "%s, %v, %v", content, err, again)
		}), pair, now)
		conn := tls.Client(dial(), &tls.Config{InsecureSkipVerify: true})
		_, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nabc")
		if err == nil {
			err = conn.CloseWrite()
		}
		if err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(conn)
		if want := "abc, unexpected EOF, unexpected EOF"; !strings.HasSuffix(string(answer), want) {
			t.Errorf("the handler has %q, want %q", answer, want)
		}
		_ = conn.Close()
		s.Drain(t.Context())
	})
}

// ask2 sends a request in HTTP/2. A deaf one leaves no room for the body of the answer.
func ask2(t *testing.T, conn net.Conn, length int, deaf bool, send func(write func(string))) string {
	t.Helper()
	if !deaf {
		answer := wiretest.HTTP2(t, conn, func(_ *http2.Framer, stream uint32) error {
			sent, framer := 0, http2.NewFramer(conn, nil) // one for each goroutine that writes
			go send(func(part string) {
				sent += len(part)
				for ; len(part) > 16<<10; part = part[16<<10:] {
					_ = framer.WriteData(stream, false, []byte(part[:16<<10]))
				}
				_ = framer.WriteData(stream, sent == length, []byte(part))
			})
			return nil
		}, ":method", "POST", ":scheme", "https", ":authority", "a", ":path", "/", "content-length", fmt.Sprint(length))
		return fmt.Sprint(answer.Status, " ", answer.Body)
	}
	two := wiretest.Keep2(t, conn)
	err := two.Framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	if err == nil {
		err = two.Framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: wiretest.Block(
			":method", "POST", ":scheme", "https", ":authority", "a", ":path", "/", "content-length", fmt.Sprint(length)), EndHeaders: true})
	}
	for err == nil {
		var frame http2.Frame
		if frame, err = two.Framer.ReadFrame(); err == nil {
			if _, is := frame.(*http2.RSTStreamFrame); is {
				return "reset"
			}
		}
	}
	t.Fatal(err)
	return ""
}
