package actor_test

import (
	"strings"
	"testing"

	"connect-svc/internal/actor"
)

func TestOf(t *testing.T) {
	if got := actor.Of(t.Context()); got != "operator" {
		t.Errorf("nobody is named: %s", got)
	}
	ada := actor.As(t.Context(), "ada")
	if got := actor.Of(ada); got != "ada" {
		t.Errorf("ada is %s", got)
	}
	if got := actor.Of(actor.As(ada, "grace")); got != "grace" {
		t.Errorf("grace is %s", got)
	}
}

func TestIsName(t *testing.T) {
	for _, good := range []string{"ada", "Ada.Lovelace", "on-call_2", "7", strings.Repeat("x", 64), "users", "operator2"} {
		if !actor.IsName(good) {
			t.Errorf("%s is refused", good)
		}
	}
	for _, bad := range []string{"", " ada", "ada lovelace", "ada@example.com", ".ada", "-", "größe", "a\n", "a\x00",
		strings.Repeat("x", 65), "user", "client", "operator", "system", "System", "OPERATOR"} {
		if actor.IsName(bad) {
			t.Errorf("%q is accepted", bad)
		}
	}
}
