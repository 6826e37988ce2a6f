package account

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"connect-svc/internal/testing/pgtest"
)

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
