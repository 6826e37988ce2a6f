package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"
)

type streamed struct {
	N    int    `json:"n"`
	Link string `json:"link"`
}

func numbers(n int, failure error) iter.Seq2[streamed, error] {
	return paged(func(at int) (page []streamed, err error) {
		for ; at < n && len(page) < listPage; at++ {
			page = append(page, streamed{at, "https://example.com/?a&b"})
		}
		if len(page) == 0 && failure != nil {
			return nil, failure
		}
		return page, nil
	}, func(last streamed) int { return last.N + 1 })
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
	same := func(row streamed) streamed { return row }
	text := func(w io.Writer, row streamed) { fmt.Fprintf(w, "%d\t%s\n", row.N, row.Link) }
	for _, n := range []int{0, 1, listPage, 20 * listPage} {
		all := make([]streamed, 0, n)
		for row, err := range numbers(n, nil) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, row)
		}
		if len(all) != n {
			t.Fatalf("%d rows, want %d", len(all), n)
		}
		var want, whole bytes.Buffer
		if err := (output{"json"}).print(&program{stdout: &want}, all, nil); err != nil {
			t.Fatal(err)
		}
		var got countingWriter
		if err := stream(output{"json"}, &program{stdout: &got}, numbers(n, nil), same, "N\tLINK", text); err != nil {
			t.Fatal(err)
		}
		if got.String() != want.String() {
			t.Errorf("%d rows as JSON are not what an encoder makes of them", n)
		}
		if got.longest > 1<<17 {
			t.Errorf("%d rows: %d bytes were held back", n, got.longest)
		}
		if err := stream(output{"text"}, &program{stdout: &whole}, numbers(n, nil), same, "N\tLINK", text); err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(whole.String(), "\n"); lines != n+1 || !strings.HasPrefix(whole.String(), "N") {
			t.Errorf("%d rows are a table of %d lines", n, lines)
		}
	}
	away := errors.New("away")
	var none, some bytes.Buffer
	if err := stream(output{"json"}, &program{stdout: &none}, numbers(0, away), same, "", text); !errors.Is(err, away) || none.Len() > 0 {
		t.Errorf("an error before the first row: %v, and %q", err, none.String())
	}
	if err := stream(output{"json"}, &program{stdout: &some}, numbers(listPage, away), same, "", text); !errors.Is(err, away) || json.Valid(some.Bytes()) {
		t.Errorf("an error behind the first page: %v, and what looks like a whole list", err)
	}
}
