package main

import (
	"strings"
	"testing"
)

// What the limits measure are the statements that the service sends, with each of their arguments.
func TestLimitsAreStatementsOfTheService(t *testing.T) {
	t.Parallel()
	found, err := readStatements("../../sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		if g.limit.constant {
			continue
		}
		script, err := g.limit.script(found)
		if err != nil {
			t.Errorf("%s: %v", g.limit.name, err)
		}
		if strings.Contains(script, "@") || strings.Contains(script, "-- ") {
			t.Errorf("%s: an argument or a comment is left:\n%s", g.limit.name, script)
		}
	}
}

func TestStatements(t *testing.T) {
	t.Parallel()
	s := statements{"Get": "select @a::bigint, @a_b;"}
	script, err := s.script("Get", map[string]string{"a": "1", "a_b": ":x"})
	if want := "select (1)::bigint, (:x);\n"; err != nil || script != want {
		t.Errorf("got %q, %v, want %q", script, err, want)
	}
	if _, err := s.script("Get", map[string]string{"a": "1"}); err == nil {
		t.Error("no value for a_b, and no error")
	}
	if _, err := s.script("Put", nil); err == nil {
		t.Error("no such statement, and no error")
	}
}
