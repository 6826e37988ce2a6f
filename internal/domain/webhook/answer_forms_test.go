package webhook

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// raw answers with these bytes, whose lines end with LF here and with CRLF on the wire, and closes the connection.
func raw(text string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, strings.ReplaceAll(text, "\n", "\r\n"))
		_ = conn.Close()
	}
}

// An answer means the same in every form of RFC 9112 that a receiver gives it, and the log has its content.
func TestFormsOfAnswers(t *testing.T) {
	t.Parallel()
	of := newWorld(t)
	for name, test := range map[string]struct {
		text    string
		status  int
		content string
		fault   string
	}{
		"a length":                    {"HTTP/1.1 200 OK\nContent-Length: 4\n\nwell", 200, "well", ""},
		"names in lower case":         {"HTTP/1.1 200 OK\ncontent-length: 4\n\nwell", 200, "well", ""},
		"names in capitals":           {"HTTP/1.1 200 OK\nCONTENT-LENGTH:4\n\nwell", 200, "well", ""},
		"space around values":         {"HTTP/1.1 200 OK\nContent-Length: \t 4 \t\n\nwell", 200, "well", ""},
		"no reason":                   {"HTTP/1.1 200 \nContent-Length: 4\n\nwell", 200, "well", ""},
		"another reason":              {"HTTP/1.1 200 Merci \xe9\nContent-Length: 4\n\nwell", 200, "well", ""},
		"chunks":                      {"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n2\nwe\n2\nll\n0\n\n", 200, "well", ""},
		"chunks in capitals":          {"HTTP/1.1 200 OK\nTRANSFER-ENCODING: CHUNKED\n\n04\nwell\n00\n\n", 200, "well", ""},
		"chunks with extensions":      {"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n4;a=\"b\"\nwell\n0;c\n\n", 200, "well", ""},
		"chunks with trailers":        {"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\nTrailer: Digest\n\n4\nwell\n0\nDigest: x\nUnsaid: y\n\n", 200, "well", ""},
		"no length":                   {"HTTP/1.1 200 OK\nConnection: close\n\nwell", 200, "well", ""},
		"HTTP/1.0":                    {"HTTP/1.0 200 OK\n\nwell", 200, "well", ""},
		"HTTP/1.0 with a length":      {"HTTP/1.0 200 OK\nContent-Length: 4\nConnection: keep-alive\n\nwell", 200, "well", ""},
		"a continue before":           {"HTTP/1.1 100 Continue\n\nHTTP/1.1 200 OK\nContent-Length: 4\n\nwell", 200, "well", ""},
		"hints before":                {"HTTP/1.1 102 Processing\n\nHTTP/1.1 103 Early Hints\nLink: </a>; rel=preload\n\nHTTP/1.1 200 OK\nContent-Length: 4\n\nwell", 200, "well", ""},
		"no content":                  {"HTTP/1.1 204 No Content\n\n", 204, "", ""},
		"no content of length 0":      {"HTTP/1.1 204 No Content\nContent-Length: 0\n\n", 204, "", ""},
		"content to be reset":         {"HTTP/1.1 205 Reset Content\nContent-Length: 0\n\n", 205, "", ""},
		"a status that nobody knows":  {"HTTP/1.1 299 Fine\nContent-Length: 0\n\n", 299, "", ""},
		"zipped, although not asked":  {"HTTP/1.1 200 OK\nContent-Encoding: gzip\nContent-Length: 4\n\n\x1f\x8b\x08\x00", 200, "\x1f\x8b\x08\x00", ""},
		"more than the length":        {"HTTP/1.1 200 OK\nContent-Length: 4\n\nwell, HTTP/1.1 500 No", 200, "well", ""},
		"another protocol":            {"HTTP/1.1 101 Switching Protocols\nConnection: Upgrade\nUpgrade: websocket\n\n", 101, "", ""},
		"a redirect of another form":  {"HTTP/1.1 303 See Other\nlocation: /elsewhere\nContent-Length: 0\n\n", 303, "", "redirects are not followed"},
		"a redirect without a target": {"HTTP/1.1 302 Found\nContent-Length: 0\n\n", 302, "", "redirects are not followed"},
		"less than the length":        {"HTTP/1.1 200 OK\nContent-Length: 5\n\nwell", 200, "well", "the connection broke"},
		"chunks that break off":       {"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5\nwell", 200, "well", "the connection broke"},
		"both lengths":                {"HTTP/1.1 200 OK\nContent-Length: 9\nTransfer-Encoding: chunked\n\n4\nwell\n0\n\n", 200, "well", ""},
		"two lengths":                 {"HTTP/1.1 200 OK\nContent-Length: 4\nContent-Length: 5\n\nwell", 0, "", "no valid response"},
		"a status below 100":          {"HTTP/1.1 099 What\nContent-Length: 0\n\n", 0, "", "no valid response"},
		"a status of zeros":           {"HTTP/1.1 000 Nothing\nContent-Length: 4\n\nwell", 0, "", "no valid response"},
		"HTTP/2":                      {"\x00\x00\x00\x04\x00\x00\x00\x00\x00", 0, "", "no valid response"},
		"hints without end":           {strings.Repeat("HTTP/1.1 103 Early Hints\nX: "+strings.Repeat("x", 100)+"\n\n", 1000), 0, "", "no valid response"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := receive(t, raw(test.text))
			w := newWorldOn(t, of.db, of.keys)
			id := w.revoked(t, w.client(t, r))
			w.attemptNow(t, id)
			event := w.event(t, id)
			attempt := event.Attempts[0]
			if attempt.Status != test.status || attempt.Fault != test.fault || string(attempt.Response) != test.content {
				t.Errorf("status %d, fault %q, content %q", attempt.Status, attempt.Fault, attempt.Response)
			}
			if success := test.fault == "" && test.status/100 == 2; attempt.Success() != success || (event.State == Delivered) != success {
				t.Errorf("success: %t, state %s", attempt.Success(), event.State)
			}
		})
	}
}
