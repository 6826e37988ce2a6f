package static

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var text = strings.Repeat("How far we walked today. ", 400)

// fetch asks a server on the network, and takes the answer as it came.
func fetch(t *testing.T, f *File, method string, headers ...string) (*http.Response, string) {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	answer, err := (&http.Transport{DisableCompression: true}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got := answer.Header.Get("Vary"); got != "Accept-Encoding" {
		t.Errorf("Vary: %q", got)
	}
	return answer, string(body)
}

func unzip(t *testing.T, body string) string {
	t.Helper()
	r, err := gzip.NewReader(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// RFC 9110, section 12.5.3.
func TestAcceptEncoding(t *testing.T) {
	t.Parallel()
	for accepted, zipped := range map[string]bool{
		"":                              false,
		"gzip":                          true,
		"GZIP":                          true,
		"x-gzip":                        true,
		"x-gzip;q=0":                    false,
		"gzip\t;\tq=0":                  false,
		"br, gzip":                      true,
		"deflate , gzip ; q=1.0, *;q=0": true,
		"gzip;Q=0.001":                  true,
		"gzip;q=0":                      false,
		"gzip; q=0.000, *":              false,
		"*":                             true,
		"*;q=0":                         false,
		"br, *;q=0.1":                   true,
		"identity":                      false,
		"identity;q=0.5, gzip;q=0.4":    false,
		"identity;q=0.4, gzip;q=0.5":    true,
		"identity, gzip":                true,
		"gzip;q=much":                   false,
	} {
		answer, body := fetch(t, New("text/plain", []byte(text)), http.MethodGet, "Accept-Encoding", accepted)
		if got := answer.Header.Get("Content-Encoding") == "gzip"; got != zipped {
			t.Errorf("%q: compressed: %t, want %t", accepted, got, zipped)
		} else if got {
			body = unzip(t, body)
		}
		if body != text {
			t.Errorf("%q: %d bytes of %d", accepted, len(body), len(text))
		}
	}
	if answer, body := fetch(t, New("text/plain", []byte(text)), http.MethodGet, "Accept-Encoding", "br", "Accept-Encoding", "gzip"); unzip(t, body) != text {
		t.Errorf("two lines: %v", answer.Header)
	}
}

// Both forms have a tag of their own, by which they are asked for again and continued.
func TestTags(t *testing.T) {
	t.Parallel()
	f := New("text/plain", []byte(text))
	plain, _ := fetch(t, f, http.MethodGet)
	zipped, body := fetch(t, f, http.MethodGet, "Accept-Encoding", "gzip")
	tags := []string{plain.Header.Get("ETag"), zipped.Header.Get("ETag")}
	if tags[0] == tags[1] || !strings.HasPrefix(tags[0], `"`) || !strings.HasPrefix(tags[1], `"`) {
		t.Fatalf("tags %q", tags)
	}
	for i, accepted := range []string{"identity", "gzip"} {
		if answer, body := fetch(t, f, http.MethodGet, "Accept-Encoding", accepted, "If-None-Match", tags[i]); answer.StatusCode != http.StatusNotModified ||
			body != "" || answer.Header.Get("ETag") != tags[i] {
			t.Errorf("%s again: %d, %v", accepted, answer.StatusCode, answer.Header)
		}
		if answer, _ := fetch(t, f, http.MethodGet, "Accept-Encoding", accepted, "If-None-Match", tags[1-i]); answer.StatusCode != http.StatusOK {
			t.Errorf("%s with the other's tag: %d", accepted, answer.StatusCode)
		}
	}
	if answer, part := fetch(t, f, http.MethodGet, "Range", "bytes=4-11"); answer.StatusCode != http.StatusPartialContent || part != text[4:12] {
		t.Errorf("a part: %d, %q", answer.StatusCode, part)
	}
	answer, part := fetch(t, f, http.MethodGet, "Accept-Encoding", "gzip", "Range", "bytes=10-", "If-Range", tags[1])
	if answer.StatusCode != http.StatusPartialContent || unzip(t, body[:10]+part) != text {
		t.Errorf("the rest of what is compressed: %d, %d bytes of %d", answer.StatusCode, len(part), len(body))
	}
	if answer, part := fetch(t, f, http.MethodGet, "Range", "bytes=10-", "If-Range", tags[1]); answer.StatusCode != http.StatusOK || part != text {
		t.Errorf("the rest of the other form: %d, %d bytes", answer.StatusCode, len(part))
	}
}

func TestHead(t *testing.T) {
	t.Parallel()
	f := New("text/css", []byte(text))
	for _, accepted := range []string{"identity", "gzip"} {
		full, _ := fetch(t, f, http.MethodGet, "Accept-Encoding", accepted)
		head, body := fetch(t, f, http.MethodHead, "Accept-Encoding", accepted)
		full.Header.Del("Date")
		head.Header.Del("Date")
		if body != "" || head.StatusCode != http.StatusOK || head.Header.Get("Content-Type") != "text/css" {
			t.Errorf("%s: %d, %q, %v", accepted, head.StatusCode, body, head.Header)
		}
		if diff := cmp.Diff(full.Header, head.Header); diff != "" || full.Header.Get("Content-Length") == "" {
			t.Errorf("%s: headers (-GET +HEAD):\n%s", accepted, diff)
		}
	}
}

// No answer has the length of another one's content.
func TestLengths(t *testing.T) {
	t.Parallel()
	f := New("text/css", []byte(text))
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		for want, header := range map[int][]string{
			http.StatusNotModified: {"If-None-Match", "*"}, http.StatusPreconditionFailed: {"If-Match", `"another"`},
			http.StatusRequestedRangeNotSatisfiable: {"Range", "bytes=100000-"},
		} {
			answer, body := fetch(t, f, method, append(header, "Accept-Encoding", "gzip")...)
			if answer.StatusCode != want || answer.ContentLength != int64(len(body)) && method == http.MethodGet && want != http.StatusNotModified {
				t.Errorf("%s %v: %d, length %d of %d", method, header, answer.StatusCode, answer.ContentLength, len(body))
			}
		}
	}
}

// Files that compression does not shrink, such as photographs and small drawings, are sent as they are.
func TestNotSmaller(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"", "short", string(zip([]byte(text)))} {
		answer, body := fetch(t, New("image/png", []byte(content)), http.MethodGet, "Accept-Encoding", "gzip")
		if answer.Header.Get("Content-Encoding") != "" || !bytes.Equal([]byte(body), []byte(content)) {
			t.Errorf("%d bytes: %v", len(content), answer.Header)
		}
	}
}
