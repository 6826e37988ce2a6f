package pages

import (
	"fmt"
	"strings"
	"testing"

	"connect-svc/internal/foundation/scope"
)

// If the node of a cluster is away that would store a sign-in, it goes on under another id.
func TestSignInElsewhere(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	base := v.open(scope.All)
	f.DB.Away(t, "sign_ins", fmt.Sprintf("new.sign_in_id = '%s'", idOf(t, base)))
	other, found := strings.CutSuffix(v.Location(v.Post(base+"/sign-in", "email", email)), "/code")
	if !found || other == base {
		t.Fatalf("the sign-in goes on at %q", other)
	}
	if got := v.Location(v.Post(other+"/code", "code", f.post.Next(t).Code)); got != other+"/consent" {
		t.Fatalf("after the code: %q", got)
	}
	v.Get(other + "/consent")
	if got := v.Location(v.Post(other+"/consent", "decision", "allow")); !strings.HasPrefix(got, callback) || !strings.Contains(got, "code=") {
		t.Errorf("after the consent: %q", got)
	}
}

// The same for the account pages, for which the browser gets the new id.
func TestAccountSignInElsewhere(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	v := f.visitor(t)
	first := v.Post("/account/sign-in", "email", "not an address")
	for _, cookie := range first.Cookies() {
		if cookie.Name == signInCookie {
			id, _ := f.Accounts.OpenSignIn(cookie.Value)
			f.DB.Away(t, "sign_ins", fmt.Sprintf("new.sign_in_id = '%s'", id))
		}
	}
	if got := v.Location(v.Post("/account/sign-in", "email", email)); got != "/account/code" {
		t.Fatalf("location = %q", got)
	}
	if got := v.Location(v.Post("/account/code", "code", f.post.Next(t).Code)); got != "/account" {
		t.Errorf("after the code: %q", got)
	}
}
