package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/testing/pgtest"
)

const link = "https://example.com/?a&b"

// pagesOf is a list of n numbers, as the operator API has lists. In the place of the page after the last one it fails.
func pagesOf(n int, failure error) func(*string) (*http.Response, error) {
	at := 0
	return func(*string) (*http.Response, error) {
		page := map[string]any{"data": []any{}, "next_cursor": nil}
		for last := min(n, at+pageRows); at < last; at++ {
			page["data"] = append(page["data"].([]any), map[string]any{"n": at, "link": link})
		}
		if len(page["data"].([]any)) == 0 && failure != nil {
			return nil, failure
		}
		if at < n || failure != nil {
			page["next_cursor"] = "next"
		}
		text, err := json.Marshal(page)
		return &http.Response{Body: io.NopCloser(bytes.NewReader(text))}, err
	}
}

// countingWriter remembers the longest part of the output that it was handed at once.
type countingWriter struct {
	bytes.Buffer
	longest int
}

func (w *countingWriter) Write(p []byte) (int, error) {
	w.longest = max(w.longest, len(p))
	return w.Buffer.Write(p)
}

// A list is written as it comes, and is byte for byte what an encoder makes of all of it.
func TestStream(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, pageRows, 20 * pageRows} {
		all := make([]any, n)
		for i := range all {
			all[i] = map[string]any{"n": i, "link": link}
		}
		var want, whole bytes.Buffer
		if err := (output{"json"}).print(&program{stdout: &want}, all, nil); err != nil {
			t.Fatal(err)
		}
		var got countingWriter
		if err := (output{"json"}).list(&program{stdout: &got}, rows(pagesOf(n, nil)), "n link"); err != nil {
			t.Fatal(err)
		}
		if got.String() != want.String() {
			t.Errorf("%d rows as JSON are not what an encoder makes of them", n)
		}
		if got.longest > 1<<17 {
			t.Errorf("%d rows: %d bytes were held back", n, got.longest)
		}
		if err := (output{"text"}).list(&program{stdout: &whole}, rows(pagesOf(n, nil)), "n link"); err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(whole.String(), "\n"); lines != n+1 || !strings.HasPrefix(whole.String(), "N") {
			t.Errorf("%d rows are a table of %d lines", n, lines)
		}
		if n > 0 && !strings.Contains(whole.String(), fmt.Sprint(n-1, "  ")) {
			t.Errorf("the last of %d rows is not in the table", n)
		}
	}
	away := errors.New("away")
	var none, some bytes.Buffer
	if err := (output{"json"}).list(&program{stdout: &none}, rows(pagesOf(0, away)), "n"); !errors.Is(err, away) || none.Len() > 0 {
		t.Errorf("an error before the first row: %v, and %q", err, none.String())
	}
	if err := (output{"json"}).list(&program{stdout: &some}, rows(pagesOf(pageRows, away)), "n"); !errors.Is(err, away) || json.Valid(some.Bytes()) {
		t.Errorf("an error after the first page: %v, and what looks like a whole list", err)
	}
}

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// A command whose result cannot be written says that it is done, so that it is not repeated: what it made is there.
func TestResultThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for _, format := range []string{"text", "json"} {
		var stderr bytes.Buffer
		args := append(slices.Clone(walkRewards), "--name", "Walk "+format, "--output", format)
		status := run(t.Context(), args, env(db), strings.NewReader(""), full{}, &stderr)
		if status != statusFailed || !strings.Contains(stderr.String(), "connect-svc: done, but the result cannot be written: no space left on device") {
			t.Errorf("%s: status %d, %q", format, status, stderr.String())
		}
	}
	if clients := succeedJSON[[]operatorapi.Client](t, env(db), "", "client", "list"); len(clients) != 2 {
		t.Errorf("%d clients", len(clients))
	}
}
