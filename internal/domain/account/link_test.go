package account

import (
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/testing/pgtest"
)

// link asks for an email and reads its link.
func (b *bench) link(t *testing.T, signIn uuid.UUID, email string) string {
	t.Helper()
	err := b.SendCode(t.Context(), CodeRequest{SignIn: signIn, Email: email, Network: netip.MustParseAddr("192.0.2.1"), LinkPath: "/account/link"})
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.post.Next(t).Text) {
		if link, found := strings.CutPrefix(strings.TrimSpace(line), "https://service.example/account/link/"); found {
			return link
		}
	}
	t.Fatal("the email has no link")
	return ""
}

func TestLink(t *testing.T) {
	t.Parallel()
	b, ctx := newBench(t, Settings{}), t.Context()
	user := b.user(t, "ada@example.com")
	signIn, other := uuid.New(), uuid.New()
	old := b.link(t, signIn, user.Email)
	link, others := b.link(t, signIn, user.Email), b.link(t, other, user.Email)
	for what, wrong := range map[string]string{"nothing": "", "a code": "012345", "that of an older email": old, "that of another sign-in": others, "a part": link[:42]} {
		if err := b.CheckLink(ctx, signIn, wrong); !errors.Is(err, ErrWrongLink) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := b.VerifyLink(ctx, signIn, wrong); !errors.Is(err, ErrWrongLink) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := b.VerifyLink(ctx, uuid.New(), link); !errors.Is(err, ErrNoSignIn) {
		t.Errorf("no sign-in: %v", err)
	}
	// Wrong codes end the code and not the link.
	for range Attempts {
		_, _ = b.VerifyCode(ctx, signIn, wrong(b.codeNow(t, signIn)))
	}
	if _, err := b.VerifyCode(ctx, signIn, b.codeNow(t, signIn)); !errors.Is(err, ErrCodeSpent) {
		t.Errorf("the code: %v", err)
	}
	if err := b.CheckLink(ctx, signIn, link); err != nil {
		t.Errorf("the link: %v", err)
	}
	first, err := b.VerifyLink(ctx, signIn, link)
	if err != nil || first.UserID != user.ID {
		t.Fatalf("the link: %v", err)
	}
	if second, err := b.VerifyLink(ctx, signIn, link); err != nil || second.Secret != first.Secret {
		t.Errorf("a form that was sent twice: %v", err)
	}
	session, err := b.StartSession(ctx, signIn, first)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := b.StartSession(ctx, signIn, first); err != nil || again != session {
		t.Errorf("the session of the second form: %v", err)
	}
	if err := b.EndSession(ctx, session); err != nil {
		t.Fatal(err)
	}
	if _, err := b.StartSession(ctx, signIn, first); !errors.Is(err, ErrNoSignIn) {
		t.Errorf("after that session: %v, want ErrNoSignIn", err)
	}
	b.db.Clock.Advance(10 * time.Minute)
	if _, err := b.VerifyLink(ctx, other, others); !errors.Is(err, ErrCodeExpired) {
		t.Errorf("after ten minutes: %v", err)
	}
}

// TestLinkAtOnce: a link that many use at once starts one session.
func TestLinkAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	user := b.user(t, "ada@example.com")
	signIn := uuid.New()
	link := b.link(t, signIn, user.Email)
	sessions := make(chan SessionKey, 20)
	var group sync.WaitGroup
	for range cap(sessions) {
		group.Go(func() {
			verified, err := b.VerifyLink(t.Context(), signIn, link)
			if err != nil {
				t.Error(err)
				return
			}
			session, err := b.StartSession(t.Context(), signIn, verified)
			if err != nil {
				t.Error(err)
			}
			sessions <- session
		})
	}
	group.Wait()
	close(sessions)
	different := map[SessionKey]bool{}
	for session := range sessions {
		different[session] = true
	}
	if stored := pgtest.Value[int64](t, b.db, "select count(*) from account_sessions"); len(different) != 1 || stored != 1 {
		t.Errorf("%d sessions, %d stored", len(different), stored)
	}
}

// TestLinkWithoutAnAccount: the page of a sign-in without an account refuses whatever link.
func TestLinkWithoutAnAccount(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	signIn := uuid.New()
	if err := b.send(signIn, "nobody@example.com"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.VerifyLink(t.Context(), signIn, b.linkOf(signIn, b.seedNow(t, signIn))); !errors.Is(err, ErrWrongLink) {
		t.Errorf("its link: %v", err)
	}
}

// TestCodesThatWorkNoMore: after a hundred wrong codes the emails have a link alone, which works, and then codes work again.
func TestCodesThatWorkNoMore(t *testing.T) {
	t.Parallel()
	b, ctx := newBench(t, Settings{}), t.Context()
	user := b.user(t, "ada@example.com")
	waiting := uuid.New()
	code := b.code(t, waiting, user.Email)
	for range 20 {
		b.guess(t, user.Email, "192.0.2.9")
		b.post.Next(t)
	}
	if _, err := b.VerifyCode(ctx, waiting, code); !errors.Is(err, ErrCodeSpent) {
		t.Errorf("a right code that was sent before: %v", err)
	}
	if found, err := b.GetSignIn(ctx, waiting); err != nil || !found.NoCodes || found.AttemptsLeft != 0 {
		t.Errorf("its page: %+v, %v", found, err)
	}
	signIn := uuid.New()
	link := b.link(t, signIn, user.Email)
	if _, err := b.VerifyLink(ctx, signIn, link); err != nil {
		t.Errorf("the link: %v", err)
	}
	next := uuid.New()
	if _, err := b.VerifyCode(ctx, next, b.code(t, next, user.Email)); err != nil {
		t.Errorf("a code after the sign-in: %v", err)
	}
}
