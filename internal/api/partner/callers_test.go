package partner

import (
	"testing"

	"github.com/google/uuid"

	"connect-svc/internal/fairqueue"
	"connect-svc/internal/oauth"
)

// A client has a line of its own once its secret was found to be right, and until it is found to be wrong. Who guesses
// secrets of another, or says to be many, waits in the line of those who are not known.
func TestCallersAreNamedOnceTheyAreKnown(t *testing.T) {
	t.Parallel()
	var c callers
	id := uuid.New()
	own, guessed := oauth.Credentials{ClientID: id, SecretHash: [32]byte{1}}, oauth.Credentials{ClientID: id, SecretHash: [32]byte{2}}
	check := func(when string, client oauth.Credentials, want string) {
		t.Helper()
		if got := c.name(client); got != want {
			t.Errorf("%s: the line of %q, want %q", when, got, want)
		}
	}
	check("before", own, fairqueue.Unknown)
	c.learn(own, true)
	check("found right", own, id.String())
	c.learn(guessed, false)
	check("guessed", guessed, fairqueue.Unknown)
	check("after a guess of another", own, id.String())
	c.learn(own, false)
	check("found wrong", own, fairqueue.Unknown)

	for range maxCallers + 10 {
		c.learn(oauth.Credentials{ClientID: uuid.New()}, true)
	}
	if len(c.right) > maxCallers {
		t.Errorf("%d secrets are kept", len(c.right))
	}
}
