//go:build check

package audit_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"

	"connect-svc/internal/admin/audit"
)

// Python's csv module, which refuses what is not well-formed, reads the rows of an export as they were found.
func TestPythonReads(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	var text bytes.Buffer
	if err := h.log.WriteCSV(t.Context(), &text, audit.Filter{ClientID: h.partner}, atOnce); err != nil {
		t.Fatal(err)
	}
	want, err := csv.NewReader(bytes.NewReader(text.Bytes())).ReadAll()
	if err != nil || len(want) < 3 {
		t.Fatalf("%d rows, %v", len(want), err)
	}
	command := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c",
		`import csv, io, json, sys; print(json.dumps(list(csv.reader(io.TextIOWrapper(sys.stdin.buffer, "utf-8", newline=""), strict=True))))`)
	command.Stdin = &text
	output, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got [][]string
	if err := json.Unmarshal(output, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-encoding/csv +Python):\n%s", diff)
	}
}
