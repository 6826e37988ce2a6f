package account

import (
	"context"
	"errors"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// Names "4" are section 4 of the decisions: "The account pages have their own sign-in by code, a session of 30 minutes".

// session signs a user in to the account pages.
func (b *bench) session(t *testing.T, email string) SessionKey {
	t.Helper()
	signIn := uuid.New()
	key, err := b.enter(context.Background(), signIn, b.code(t, signIn, email))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestSession4ThirtyMinutes(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	ctx := context.Background()
	user := b.user(t, "ada@example.com")
	key := b.session(t, "ada@example.com")
	b.db.Clock.Advance(30*time.Minute - 10*time.Second)
	got, err := b.GetSession(ctx, key)
	if err != nil {
		t.Fatalf("shortly before 30 minutes: %v", err)
	}
	if diff := cmp.Diff(user, got); diff != "" {
		t.Errorf("signed in is somebody else (-want +got):\n%s", diff)
	}
	b.db.Clock.Advance(10 * time.Second) // what was done in it has not made it longer
	if _, err := b.GetSession(ctx, key); !errors.Is(err, ErrNoSession) {
		t.Errorf("after 30 minutes: %v, want ErrNoSession", err)
	}
	if err := b.Sweep(ctx, b.db.Now()); err != nil {
		t.Fatal(err)
	}
	if n := pgtest.Value[int64](t, b.db, "select count(*) from account_sessions"); n != 0 {
		t.Errorf("%d sessions after the sweep", n)
	}
}

func TestSession4BelongsToOneBrowserAndUser(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	ctx := context.Background()
	b.user(t, "ada@example.com")
	other := b.user(t, "bea@example.com")
	key, second := b.session(t, "ada@example.com"), b.session(t, "ada@example.com")

	for name, wrong := range map[string]SessionKey{
		"nobody": {}, "another user": {UserID: other.ID, Secret: key.Secret}, "another secret": {UserID: key.UserID},
	} {
		if _, err := b.GetSession(ctx, wrong); !errors.Is(err, ErrNoSession) {
			t.Errorf("the key of %s: %v, want ErrNoSession", name, err)
		}
		if err := b.EndSession(ctx, wrong); err != nil {
			t.Errorf("signing out with the key of %s: %v", name, err)
		}
	}
	for range 2 { // a form sent twice
		if err := b.EndSession(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.GetSession(ctx, key); !errors.Is(err, ErrNoSession) {
		t.Errorf("after signing out: %v, want ErrNoSession", err)
	}
	if _, err := b.GetSession(ctx, second); err != nil {
		t.Errorf("the other browser was signed out, too: %v", err)
	}
	b.db.Exec(t, "delete from users where user_id = $1", key.UserID)
	if _, err := b.GetSession(ctx, second); !errors.Is(err, ErrNoSession) {
		t.Errorf("a deleted user: %v, want ErrNoSession", err)
	}
}

// TestSessionOfOneSignIn: a code that is entered again, also at once, leads to one session, and to none after that has ended.
func TestSessionOfOneSignIn(t *testing.T) {
	t.Parallel()
	b, ctx := newBench(t, Settings{}), t.Context()
	user, signIn := b.user(t, "ada@example.com"), uuid.New()
	code := b.code(t, signIn, user.Email)
	started := make(chan SessionKey, 3) // fewer than the attempts of a code
	var group sync.WaitGroup
	for range cap(started) {
		group.Go(func() {
			key, err := b.enter(ctx, signIn, code[:3]+" "+code[3:])
			if err != nil {
				t.Error(err)
			}
			started <- key
		})
	}
	group.Wait()
	key := <-started
	for range cap(started) - 1 {
		if key != <-started {
			t.Error("one code started several sessions")
		}
	}
	if n := pgtest.Value[int64](t, b.db, "select count(*) from account_sessions"); n != 1 {
		t.Errorf("%d sessions", n)
	}
	if err := b.EndSession(ctx, key); err != nil {
		t.Fatal(err)
	}
	if _, err := b.enter(ctx, signIn, code); !errors.Is(err, ErrNoSignIn) {
		t.Errorf("the code after its session: %v, want ErrNoSignIn", err)
	}
	second, err := b.enter(ctx, signIn, b.code(t, signIn, user.Email))
	if err != nil || second == key {
		t.Errorf("a new code: %v", err)
	}
}

func TestSessionNeedsTheRightCode(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	ctx := context.Background()
	b.user(t, "ada@example.com")
	signIn := uuid.New()
	code := b.code(t, signIn, "ada@example.com")
	var wrongCode *WrongCodeError
	if _, err := b.enter(ctx, signIn, wrong(code)); !errors.As(err, &wrongCode) || wrongCode.AttemptsLeft != 4 {
		t.Errorf("a wrong code: %v", err)
	}
	b.db.Clock.Advance(10 * time.Minute)
	if _, err := b.enter(ctx, signIn, code); !errors.Is(err, ErrCodeExpired) {
		t.Errorf("after 10 minutes: %v, want ErrCodeExpired", err)
	}
	// Between the try and the session, another code was sent: the seed of the right one is no longer the sign-in's.
	replaced := Verified{UserID: b.user(t, "bea@example.com").ID, seed: b.seedNow(t, signIn)}
	b.code(t, signIn, "bea@example.com")
	if _, err := b.StartSession(ctx, signIn, replaced); !errors.Is(err, ErrNoSignIn) {
		t.Errorf("a replaced code: %v, want ErrNoSignIn", err)
	}
	if n := pgtest.Value[int64](t, b.db, "select count(*) from account_sessions"); n != 0 {
		t.Errorf("%d sessions", n)
	}
}

// TestEmailOfTheAccountPages: no company asks.
func TestEmailOfTheAccountPages(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	b.user(t, "ada@example.com")
	signIn := uuid.New()
	if err := b.SendCode(context.Background(), CodeRequest{SignIn: signIn, Email: "ada@example.com", Browser: BrowserName(firefox), LinkPath: "/account/link"}); err != nil {
		t.Fatal(err)
	}
	email := b.post.Next(t)
	sent := regexp.MustCompile(`\d\d:\d\d|\d+\x{a0}[A-Z][a-z]+ \d{4}`)
	want := "Activity Connect\n\nTo sign in to your connections, enter this code:\n\n" + email.Code + "\n\n" +
		"Enter it only at service.example, in the browser that you started in. It is valid for 10 minutes from TIME.\n\n" +
		"Or open this link in that browser:\n\nhttps://service.example/account/link/" + b.linkOf(signIn, b.seedNow(t, signIn)) + "\n\n" +
		"Browser: " + BrowserName(firefox) + "\nDate: TIME, TIME (Europe/Berlin)\n\n" +
		"Didn’t request this? You can ignore this email. Nobody can sign in without it. " +
		"Don’t share the code with anyone: we never ask for it by phone or email."
	if diff := cmp.Diff(want, sent.ReplaceAllString(email.Text, "TIME")); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

// enter starts a session with a code.
func (b *bench) enter(ctx context.Context, signIn uuid.UUID, code string) (SessionKey, error) {
	verified, err := b.VerifyCode(ctx, signIn, code)
	if err != nil {
		return SessionKey{}, err
	}
	return b.StartSession(ctx, signIn, verified)
}

// TestSessionStartsDuringADeletion: a sign-in to the account pages, and a deletion of its user or a change of the address, lock rows in one order.
func TestSessionStartsDuringADeletion(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	user := b.user(t, "ada@example.com")
	signIn := uuid.New()
	verified, err := b.VerifyCode(t.Context(), signIn, b.code(t, signIn, user.Email))
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan error, 1)
	start := sync.OnceFunc(func() { // a deletion after a deadlock is repeated
		go func() {
			_, err := b.StartSession(t.Context(), signIn, verified)
			started <- err
		}()
		wait.Until(t, "the session waits for the user's row", func() bool { return b.db.Waiting(t) > 0 })
	})
	operator := New(b.db.Pool, b.keys, nil, Settings{EndConnections: func(context.Context, pgx.Tx, uuid.UUID) (int64, error) {
		start()
		return 0, nil
	}})
	if _, err := operator.DeleteUser(t.Context(), user.ID); err != nil {
		t.Error(err)
	}
	if err := wait.For(t, "the session", started); !errors.Is(err, ErrNoSignIn) {
		t.Errorf("the session: %v, want no sign-in", err)
	}
}

// waits waits until a session waits for a row.
func (b *bench) waits(t *testing.T, what string) {
	t.Helper()
	wait.Until(t, what+" waits for a row", func() bool { return b.db.Waiting(t) > 0 })
}

// TestSignInDuringAnImport: an import keeps the users of its file from being deleted until it ends, and its checks of foreign keys do so, too.
// Meanwhile they sign in, forget a browser, and get another address.
func TestSignInDuringAnImport(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	user, signIn := b.user(t, "ada@example.com"), uuid.New()
	verified, err := b.VerifyCode(t.Context(), signIn, b.code(t, signIn, user.Email))
	if err != nil {
		t.Fatal(err)
	}
	importing, err := b.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer importing.Rollback(t.Context()) //nolint:errcheck // nothing was written
	if _, err := importing.Exec(t.Context(), "select from users where user_id = $1 for key share", user.ID); err != nil {
		t.Fatal(err)
	}
	pool, err := postgres.Open(t.Context(), b.db.URL+"&lock_timeout=1s", postgres.WithClock(b.db.Clock), postgres.WithLimits(wait.Patient))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	server := New(pool, b.keys, nil, b.settings)
	session, err := server.StartSession(t.Context(), signIn, verified)
	if err != nil {
		t.Errorf("the session: %v", err)
	}
	if err := server.RememberBrowser(t.Context(), signIn, verified.Browser, nil, "", "en"); err != nil {
		t.Errorf("the browser: %v", err)
	}
	if err := server.ForgetBrowser(t.Context(), session, verified.Browser.id()); err != nil {
		t.Errorf("its removal: %v", err)
	}
	if _, err := server.ChangeUser(t.Context(), user.ID, UserChange{Email: new("bea@example.com")}); err != nil {
		t.Errorf("another address: %v", err)
	}
}

// TestBrowserIsForgottenDuringADeletion: the removal of a browser, and a deletion of its user or a change of the address, lock rows in one order.
func TestBrowserIsForgottenDuringADeletion(t *testing.T) {
	pgtest.NotOnCluster(t, "the node does not know what its shards wait for")
	t.Parallel()
	b := newBench(t, Settings{})
	endRequests := func(ctx context.Context, tx pgx.Tx, _ []uuid.UUID) error { // one row stands for those of the requests
		_, err := tx.Exec(ctx, "update turns set turn = turn where turn = 'limiter'")
		return err
	}
	server := New(b.db.Pool, b.keys, nil, Settings{EndRequests: endRequests})
	for name, forget := range map[string]func(SessionKey, uuid.UUID) error{
		"by the user": func(session SessionKey, browser uuid.UUID) error {
			return server.ForgetBrowser(t.Context(), session, browser)
		},
		"by the link of a receipt": func(session SessionKey, browser uuid.UUID) error {
			return server.EndBrowser(t.Context(), Receipt{UserID: session.UserID, BrowserID: browser})
		},
	} {
		user := b.user(t, "ada@example.com")
		session := b.session(t, user.Email)
		browser := newBrowserKey(user.ID)
		b.db.Exec(t, "insert into known_browsers (user_id, browser_id, name, signed_in_at) values ($1, $2, '', connect_now())", user.ID, browser.id())
		forgotten := make(chan error, 1)
		start := sync.OnceFunc(func() { // a deletion after a deadlock is repeated
			go func() { forgotten <- forget(session, browser.id()) }()
			b.waits(t, "the browser")
		})
		operator := New(b.db.Pool, b.keys, nil, Settings{EndConnections: func(ctx context.Context, tx pgx.Tx, _ uuid.UUID) (int64, error) {
			err := endRequests(ctx, tx, nil)
			start()
			return 0, err
		}})
		if _, err := operator.DeleteUser(t.Context(), user.ID); err != nil {
			t.Errorf("%s: the deletion: %v", name, err)
		}
		if err := wait.For(t, "the browser", forgotten); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
