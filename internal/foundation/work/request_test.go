package work_test

import (
	"strings"
	"testing"

	"connect-svc/internal/foundation/work"
)

func TestOf(t *testing.T) {
	if got := work.Actor(t.Context()); got != "operator" {
		t.Errorf("nobody is named: %s", got)
	}
	ada := work.WithActor(t.Context(), "ada")
	if got := work.Actor(ada); got != "ada" {
		t.Errorf("ada is %s", got)
	}
	if got := work.Actor(work.WithActor(ada, "grace")); got != "grace" {
		t.Errorf("grace is %s", got)
	}
}

func TestIsName(t *testing.T) {
	for _, good := range []string{"ada", "Ada.Lovelace", "on-call_2", "7", strings.Repeat("x", 64), "users", "operator2"} {
		if !work.IsActorName(good) {
			t.Errorf("%s is refused", good)
		}
	}
	for _, bad := range []string{"", " ada", "ada lovelace", "ada@example.com", ".ada", "-", "größe", "a\n", "a\x00",
		strings.Repeat("x", 65), "user", "client", "operator", "system", "System", "OPERATOR"} {
		if work.IsActorName(bad) {
			t.Errorf("%q is accepted", bad)
		}
	}
}
