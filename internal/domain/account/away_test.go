package account

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/uuid"

	"connect-svc/internal/testing/pgtest"
)

// A limit whose node of a cluster is away counts elsewhere: it still limits, and begins anew when the node is back.
func TestLimitsElsewhere(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{CodesPerEmail: 1})
	user := b.user(t, "ada@example.com")
	limits := b.limits(user.Email, BrowserKey{}, netip.MustParseAddr("192.0.2.1"))
	budget := limits[len(limits)-1]
	back := b.db.Away(t, "sign_in_limits", fmt.Sprintf(`new.key = '\x%x'`, budget.key))
	signIn := uuid.New()
	code := b.code(t, signIn, user.Email)
	if _, err := b.VerifyCode(t.Context(), signIn, wrong(code)); !errors.As(err, new(*WrongCodeError)) {
		t.Errorf("a wrong code: %v", err)
	}
	elsewhere := b.elsewhere(away{budget.key: true}, budget)[0]
	if failed, err := b.failed(t.Context(), elsewhere.key[:]); failed != 1 || err != nil {
		t.Errorf("%d attempts failed, %v", failed, err)
	}
	if _, err := b.VerifyCode(t.Context(), signIn, code); err != nil {
		t.Errorf("the code: %v", err)
	}
	if err := b.send(uuid.New(), user.Email); !errors.Is(err, ErrTooManyCodes) {
		t.Errorf("one code too many: %v", err)
	}
	back()
	for _, want := range []error{nil, ErrTooManyCodes} {
		if err := b.send(uuid.New(), user.Email); !errors.Is(err, want) {
			t.Errorf("with the node back: %v, want %v", err, want)
		}
	}
}

// A sign-in whose node is away counts nothing, and another one can begin.
func TestSignInAway(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{CodesPerEmail: 1})
	user, signIn := b.user(t, "ada@example.com"), uuid.New()
	b.db.Away(t, "sign_ins", fmt.Sprintf("new.sign_in_id = '%s'", signIn))
	if err := b.send(signIn, user.Email); !errors.Is(err, ErrSignInAway) || b.counted(t) != 0 {
		t.Errorf("%v, and %d limits counted", err, b.counted(t))
	}
	b.code(t, uuid.New(), user.Email)
}

// While some emails that wait cannot be listed, because their node is away, a server sends its own.
func TestEmailsWhileANodeIsAway(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCluster(t, "its tables have no other names")
	b := newBench(t, Settings{})
	b.stop()
	user, lost, own := b.user(t, "ada@example.com"), uuid.New(), uuid.New()
	if err := b.send(lost, user.Email); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		"update code_emails set due_at = now()",
		"alter table code_emails rename to code_emails_stored",
		fmt.Sprintf(`create function answers(of uuid) returns boolean language plpgsql as
			$$begin if of = '%s' then raise 'connection to the remote node failed' using errcode = '08006'; end if; return true; end$$`, lost),
		"create view code_emails as select * from code_emails_stored where answers(sign_in_id)",
	} {
		b.db.Exec(t, statement)
	}
	next := b.another(t)
	if err := next.send(own, user.Email); err != nil {
		t.Fatal(err)
	}
	if got := next.post.Next(t).Code; got != next.codeNow(t, own) {
		t.Error("another email was sent")
	}
	b.eventually(t, "select count(*) = 1 from code_emails_stored")
	b.db.Exec(t, "drop view code_emails")
	b.db.Exec(t, "alter table code_emails_stored rename to code_emails")
	next.outbox.signal()
	if got := next.post.Next(t).Code; got != next.codeNow(t, lost) {
		t.Error("the email of the node that is back was not sent")
	}
}
