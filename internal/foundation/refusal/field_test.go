package refusal_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"connect-svc/internal/foundation/refusal"
)

// The first hundred faults by line are kept, in whichever order they are found.
func TestRows(t *testing.T) {
	t.Parallel()
	var bad refusal.Fields
	if err := bad.Err(5); err != nil {
		t.Errorf("no bad row: %v", err)
	}
	for line := 2; line <= 400; line += 2 {
		bad.AddRow(line, refusal.Field{Path: "a", Problem: "must be a UUID"})
	}
	var odd []refusal.Field
	for line := 1; line <= 100; line += 2 {
		odd = append(odd, refusal.Field{Row: line, Problem: "must be a UUID"})
	}
	bad.AddRows(300, odd)
	err := bad.Err(1000)
	if got, want := err.Error(), "500 of 1000 rows cannot be taken; the first 100 faults are named"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	lines := make([]int, len(bad.Named))
	for i, row := range bad.Named {
		lines[i] = row.Row
	}
	if !slices.IsSorted(lines) || len(lines) != refusal.MaxNamed || lines[99] != 100 || !errors.Is(err, refusal.ErrFields) {
		t.Errorf("lines %v", lines)
	}
}

func TestFields(t *testing.T) {
	t.Parallel()
	for want, field := range map[string]refusal.Field{
		"no":                     {Problem: "no"},
		"name: no":               {Path: "name", Problem: "no"},
		"line 3: no":             {Row: 3, Problem: "no"},
		"line 3, column age: no": {Row: 3, Path: "age", Problem: "no"},
	} {
		if got := field.Error(); got != want || !errors.Is(field, refusal.ErrFields) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if err := refusal.Join(nil); err != nil || refusal.FieldsOf(errors.New("other")) != nil {
		t.Errorf("no fields: %v", err)
	}
	err := refusal.Join([]refusal.Field{
		{Path: "/rows/10/b", Problem: "1"}, {Path: "/rows/9/b", Problem: "2"}, {Path: "/rows/9/a/0", Problem: "3"}, {Path: "/rows/9/a", Problem: "4"},
		{Path: "/rows/10/b", Problem: "0"}, {Path: "/a", Problem: "6"},
	})
	want := []refusal.Field{
		{Path: "/a", Problem: "6"}, {Path: "/rows/9/a", Problem: "4"}, {Path: "/rows/9/a/0", Problem: "3"}, {Path: "/rows/9/b", Problem: "2"},
		{Path: "/rows/10/b", Problem: "1"},
	}
	if got := refusal.FieldsOf(fmt.Errorf("put: %w", err)); !slices.Equal(got, want) || !errors.Is(err, refusal.ErrFields) {
		t.Errorf("%v: %v, want %v", err, got, want)
	}
	var many []refusal.Field
	for i := range 150 {
		many = append(many, refusal.Field{Path: fmt.Sprintf("/%d", 149-i)})
	}
	if got := refusal.FieldsOf(refusal.Join(many)); len(got) != refusal.MaxNamed || got[99].Path != "/99" {
		t.Errorf("%d of 150 are named, the last of them %v", len(got), got[len(got)-1])
	}
}
