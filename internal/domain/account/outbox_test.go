package account

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/testing/mailtest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
	"time"
)

// newBenchBehind has its mail server behind a proxy.
func newBenchBehind(t *testing.T, state proxyState, settings Settings) (*bench, *proxy) {
	t.Helper()
	post := mailtest.Start(t, mailtest.Config{})
	r := newProxy(t, post.Address, state)
	b := newBenchOn(t, newDB(t), post, "smtp://"+r.address, settings)
	t.Cleanup(func() { r.set(closed) }) // before the bench stops, which waits for open connections
	return b, r
}

// mail is what the page of a sign-in says of its email.
func (b *bench) mail(t *testing.T, signIn uuid.UUID) Mail {
	t.Helper()
	found, err := b.GetSignIn(t.Context(), signIn)
	if err != nil {
		t.Fatal(err)
	}
	return found.Mail
}

// attempted waits for the end of the nth attempt of the one email that waits.
func (b *bench) attempted(t *testing.T, n int) {
	t.Helper()
	b.eventually(t, "select count(*) = 1 and bool_and(attempts = $1 and leased_until is null) from code_emails", n)
}

// hurry has the next attempt follow at once.
func (b *bench) hurry(t *testing.T) {
	t.Helper()
	b.db.Exec(t, "update code_emails set due_at = now()")
	b.outbox.wake.Send()
}

// claimed leases the next email that is due.
func (b *bench) claimed(t *testing.T) waitingEmail {
	t.Helper()
	emails, _, err := b.claimCode(t.Context(), nil, 1)
	if err != nil || len(emails) != 1 {
		t.Fatalf("%d emails are due, %v", len(emails), err)
	}
	return emails[0]
}

// counted is how many codes the limits have counted.
func (b *bench) counted(t *testing.T) int64 {
	t.Helper()
	return pgtest.Value[int64](t, b.db, "select coalesce(sum(cardinality(asked_at)), 0) from sign_in_limits")
}

// TestAnEmailOutlivesAnOutage: the mail server is away and comes back.
func TestAnEmailOutlivesAnOutage(t *testing.T) {
	t.Parallel()
	b, r := newBenchBehind(t, closed, Settings{})
	user, signIn := b.user(t, "ada@example.com"), uuid.New()
	if err := b.send(signIn, user.Email); err != nil {
		t.Fatal(err)
	}
	for n, then := range []proxyState{closed, open} {
		b.attempted(t, n+1)
		if got := b.mail(t, signIn); got != MailWaiting {
			t.Errorf("before the mail server is there: %s", got)
		}
		r.set(then)
		b.hurry(t)
	}
	if got, err := b.VerifyCode(t.Context(), signIn, b.post.Next(t).Code); err != nil || got.UserID != user.ID {
		t.Errorf("the code of the email: %v, %v", got, err)
	}
	if got := b.mail(t, signIn); got != MailSent {
		t.Errorf("in the end: %s", got)
	}
	b.settled(t)
	if log := b.log.String(); strings.Count(log, "could not be sent yet") != 2 || strings.Contains(log, "level=ERROR") {
		t.Errorf("log:\n%s", log)
	}
}

// TestAnEmailIsGivenUp: a code that could not be handed over does not count, and works no more. An address without an account
// sees the same.
func TestAnEmailIsGivenUp(t *testing.T) {
	t.Parallel()
	for _, email := range []string{"known@example.com", "unknown@example.com"} {
		t.Run(email, func(t *testing.T) {
			t.Parallel()
			b, r := newBenchBehind(t, closed, Settings{CodesPerEmail: 1, CodesPerNetwork: 1})
			b.user(t, "known@example.com")
			signIn := uuid.New()
			if err := b.send(signIn, email); err != nil {
				t.Fatal(err)
			}
			code := b.codeNow(t, signIn)
			if got := b.counted(t); got != 3 {
				t.Errorf("%d limits counted the email, want 3", got)
			}
			for n := range usualPauses {
				b.attempted(t, n+1)
				b.hurry(t)
			}
			b.settled(t)
			if got := b.mail(t, signIn); got != MailFailed {
				t.Errorf("the page says %s", got)
			}
			if got := b.counted(t); got != 0 {
				t.Errorf("%d limits still count the code", got)
			}
			if _, err := b.VerifyCode(t.Context(), signIn, code); !errors.Is(err, ErrCodeNotSent) {
				t.Errorf("the code: %v, want ErrCodeNotSent", err)
			}
			if log := b.log.String(); strings.Count(log, "a one-time code could not be sent") != len(usualPauses)+1 ||
				strings.Count(log, "level=ERROR") != 1 || strings.Contains(log, email) {
				t.Errorf("log:\n%s", log)
			}
			if got := b.Counts().EmailsFailed; got != 1 {
				t.Errorf("%d emails failed", got)
			}

			r.set(open)
			if err := b.send(signIn, email); err != nil {
				t.Fatalf("at once again: %v", err)
			}
			b.settled(t)
			if got := b.mail(t, signIn); got != MailSent {
				t.Errorf("with the mail server back: %s", got)
			}
			if err := b.send(signIn, email); !errors.Is(err, ErrTooManyCodes) {
				t.Errorf("one more: %v, want ErrTooManyCodes", err)
			}
		})
	}
}

// TestRefusedRecipients: the page does not show a refused recipient, because an address without an account has none. After a temporary
// refusal the email is tried again.
func TestRefusedRecipients(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reply    string
		attempts int
		want     string
	}{
		{"550 5.1.1", 1, "smtp_code=550 smtp_status=5.1.1"},
		{"451 4.7.1", len(usualPauses) + 1, "smtp_code=451 smtp_status=4.7.1"},
	} {
		t.Run(test.reply, func(t *testing.T) {
			t.Parallel()
			post := mailtest.Start(t, mailtest.Config{Reply: mailtest.Saying("RCPT", test.reply+" not to ada@example.com")})
			b := newBenchOn(t, newDB(t), post, "smtp://"+post.Address, Settings{CodesPerEmail: 1})
			b.user(t, "ada@example.com")
			signIn := uuid.New()
			if err := b.send(signIn, "Ada@example.com"); err != nil {
				t.Fatal(err)
			}
			for n := range test.attempts - 1 {
				b.attempted(t, n+1)
				if got := b.mail(t, signIn); got != MailSent {
					t.Errorf("the page tells of attempt %d: %s", n+1, got)
				}
				b.hurry(t)
			}
			b.settled(t)
			if got := b.mail(t, signIn); got != MailSent {
				t.Errorf("the page tells: %s", got)
			}
			if err := b.send(signIn, "ada@example.com"); !errors.Is(err, ErrTooManyCodes) {
				t.Errorf("the limit tells: %v", err)
			}
			log := b.log.String()
			if strings.Count(log, test.want) != test.attempts || strings.Count(log, "\n") != test.attempts || strings.Count(log, "level=ERROR") != 1 {
				t.Errorf("want %d events of %q, one of them an error:\n%s", test.attempts, test.want, log)
			}
			if strings.Contains(strings.ToLower(log), "ada@example.com") {
				t.Errorf("the log holds the address:\n%s", log)
			}
			if got := b.Counts(); got.EmailsFailed != 1 || got.EmailsSent != 0 {
				t.Errorf("%d emails failed and %d were sent", got.EmailsFailed, got.EmailsSent)
			}
		})
	}
}

// TestAnotherServerSendsTheEmail: of a server that has stopped, and of one that died after it had leased the email.
func TestAnotherServerSendsTheEmail(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	b.stop()
	user, left, leased := b.user(t, "ada@example.com"), uuid.New(), uuid.New()
	if err := b.send(leased, user.Email); err != nil {
		t.Fatal(err)
	}
	b.db.Exec(t, "update code_emails set due_at = now()")
	b.claimed(t)
	if err := b.send(left, user.Email); err != nil {
		t.Fatal(err)
	}
	for _, signIn := range []uuid.UUID{left, leased} {
		if got := b.mail(t, signIn); got != MailWaiting {
			t.Errorf("without a server: %s", got)
		}
	}

	next := b.another(t)
	if _, err := next.VerifyCode(t.Context(), left, b.post.Next(t).Code); err != nil {
		t.Errorf("the code of the email that was left: %v", err)
	}
	if got := b.mail(t, leased); got != MailWaiting || b.post.Waiting() != 0 {
		t.Errorf("an email was sent that another server has leased: %s", got)
	}
	b.db.Exec(t, "update code_emails set leased_until = now() where sign_in_id = $1", leased) // the lease ends
	next.outbox.wake.Send()
	if _, err := next.VerifyCode(t.Context(), leased, b.post.Next(t).Code); err != nil {
		t.Errorf("the code of the email that was leased: %v", err)
	}
	next.settled(t)
}

// TestAServerThatStopsLeavesItsEmails: one that is on its way to the mail server is free for the others at once.
func TestAServerThatStopsLeavesItsEmails(t *testing.T) {
	t.Parallel()
	b, r := newBenchBehind(t, stuck, Settings{})
	user, signIn := b.user(t, "ada@example.com"), uuid.New()
	if err := b.send(signIn, user.Email); err != nil {
		t.Fatal(err)
	}
	<-r.came
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		b.stop()
	}()
	r.set(closed)
	<-stopped
	if pgtest.Value[bool](t, b.db, "select leased_until is not null from code_emails") {
		t.Error("the email is still leased")
	}
	b.db.Exec(t, "update code_emails set due_at = now()")
	next := b.another(t)
	if _, err := next.VerifyCode(t.Context(), signIn, b.post.Next(t).Code); err != nil {
		t.Errorf("the code of the email: %v", err)
	}
	next.settled(t)
}

// TestANetworkWaitsBehindItself: thousands of emails that one network has asked for, and a mail server that says nothing to
// those that are sent, do not delay the email of another network.
func TestANetworkWaitsBehindItself(t *testing.T) {
	t.Parallel()
	b, r := newBenchBehind(t, stuck, Settings{})
	network := bytes.Repeat([]byte{1}, 32)
	b.db.Exec(t, `with codes as (
			insert into sign_ins (sign_in_id, email, seed, budget, expires_at)
			select gen_random_uuid(), n || '@example.com', substr($1::bytea, 1, 16), $1::bytea, connect_now() + interval '10 minutes'
			from generate_series(1, 2000) as n returning sign_in_id, seed
		)
		insert into code_emails (sign_in_id, seed, network, place, limits, counted_at, language, partner, link_path, due_at)
		select sign_in_id, seed, $1::bytea, row_number() over () - 1, '{}', connect_now(), 'en', '', '', now() from codes`, network)
	b.outbox.wake.Send()
	for range perNetwork {
		<-r.came
	}
	signIn := uuid.New()
	if err := b.send(signIn, "ada@example.com"); err != nil {
		t.Fatal(err)
	}
	<-r.came
	if got := pgtest.Value[int64](t, b.db, "select count(*) from code_emails where leased_until is not null and network = $1", network); got != perNetwork {
		t.Errorf("%d emails of the one network are being sent, want %d", got, perNetwork)
	}
	if !pgtest.Value[bool](t, b.db, "select leased_until is not null from code_emails where sign_in_id = $1", signIn) {
		t.Error("the email of the other network waits")
	}
	if got, oldest, err := b.EmailsWaiting(t.Context()); err != nil || got != 2001 || oldest <= 0 {
		t.Errorf("%d emails wait, the oldest since %s, %v", got, oldest, err)
	}
}

// TestASlowRecipientIsNotNoticed: a mail server that takes long over recipients delays no other email of the network before the
// page says that it was sent, or the delay would tell that there is an account.
func TestASlowRecipientIsNotNoticed(t *testing.T) {
	t.Parallel()
	waiting, release := make(chan struct{}, senders), make(chan struct{})
	post := mailtest.Start(t, mailtest.Config{Reply: func(command string) string {
		if strings.HasPrefix(command, "RCPT") {
			waiting <- struct{}{}
			<-release
		}
		return ""
	}})
	defer close(release)
	b := newBenchOn(t, newDB(t), post, "smtp://"+post.Address, Settings{})
	b.user(t, "ada@example.com")
	for range perNetwork {
		if err := b.send(uuid.New(), "ada@example.com"); err != nil {
			t.Fatal(err)
		}
	}
	for range perNetwork {
		<-waiting
	}
	signIn := uuid.New()
	if err := b.send(signIn, "nobody@example.com"); err != nil {
		t.Fatal(err)
	}
	b.eventually(t, `select mail = 'sent' and
			(select count(*) = $2 from code_emails where sign_in_id <> $1 and leased_until is not null) -- the others still wait
		from sign_ins where sign_in_id = $1`, signIn, perNetwork)
}

// TestOrderOfNetworks: the first emails of all networks come before the second of any.
func TestOrderOfNetworks(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	b.stop()
	networks := map[[32]byte]string{}
	for _, name := range []string{"a", "a", "a", "b", "c", "b"} {
		address := netip.MustParseAddr("192.0.2." + fmt.Sprint(name[0]))
		networks[b.networkLimits(address)[0].key] = name
		if err := b.SendCode(t.Context(), CodeRequest{SignIn: uuid.New(), Email: "nobody@example.com", Network: address}); err != nil {
			t.Fatal(err)
		}
		b.db.Exec(t, "update code_emails set due_at = now() where due_at > now()")
	}
	var order []string
	for range 6 {
		order = append(order, networks[[32]byte(b.claimed(t).Network)])
	}
	if diff := cmp.Diff("a b c a b a", strings.Join(order, " ")); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if emails, _, err := b.claimCode(t.Context(), nil, 1); len(emails) > 0 || err != nil {
		t.Errorf("an email was leased twice, or %v", err)
	}
}

// TestPlacesBeginAnew: the emails of a network count towards the place of its next one for as long as an email may wait.
func TestPlacesBeginAnew(t *testing.T) {
	t.Parallel()
	o := newOutbox()
	network, other := [32]byte{1}, [32]byte{2}
	got := []int32{o.place(network), o.place(network), o.place(other)}
	o.since = o.since.Add(-tooLate / 2)
	got = append(got, o.place(network))
	o.since = o.since.Add(-tooLate)
	got = append(got, o.place(network))
	if diff := cmp.Diff([]int32{0, 1, 0, 2, 0}, got); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
}

// TestTheNewestCodeIsSent: who asks again before the email has left gets one email.
func TestTheNewestCodeIsSent(t *testing.T) {
	t.Parallel()
	b, r := newBenchBehind(t, closed, Settings{})
	user, signIn := b.user(t, "ada@example.com"), uuid.New()
	if err := b.send(signIn, user.Email); err != nil {
		t.Fatal(err)
	}
	b.attempted(t, 1)
	r.set(open)
	if err := b.send(signIn, user.Email); err != nil {
		t.Fatal(err)
	}
	if got := b.post.Next(t).Code; got != b.codeNow(t, signIn) {
		t.Error("the email has another code")
	}
	b.settled(t)
	if got := b.post.Waiting(); got != 0 {
		t.Errorf("%d emails too many", got)
	}
}

// TestADeletedUserGetsNoEmail: not even the one that waits.
func TestADeletedUserGetsNoEmail(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	b.stop()
	user := b.user(t, "ada@example.com")
	if err := b.send(uuid.New(), user.Email); err != nil {
		t.Fatal(err)
	}
	if _, err := b.DeleteUser(t.Context(), user.ID); err != nil {
		t.Fatal(err)
	}
	next := b.another(t)
	next.settled(t)
	if got := b.post.Waiting(); got != 0 || next.Counts().EmailsFailed != 0 {
		t.Errorf("%d emails", got)
	}
}

// TestNoCodeIsStored: no column contains the code, and it cannot be derived without the keys.
func TestNoCodeIsStored(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	b.stop()
	signIn := uuid.New()
	if err := b.send(signIn, "ada@example.com"); err != nil {
		t.Fatal(err)
	}
	code := b.codeNow(t, signIn)
	stored := pgtest.Value[string](t, b.db, `select concat_ws(' ', s.email, s.mail, s.attempts, e.language, e.partner, e.place, e.attempts)
		from sign_ins s join code_emails e using (sign_in_id, seed)`)
	if strings.Contains(stored, code) {
		t.Error("the code is stored")
	}
	if other := New(b.db.Pool, credential.NewTestKeyring(), nil, Settings{}); other.codeOf(signIn, b.seedNow(t, signIn)) == code { // once in a million
		t.Error("another keyset makes the same code")
	}
}

// TestSlowEmails: an email that the mail server has taken at the end of the attempt's time is not sent again.
func TestSlowEmails(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	b.stop()
	if err := b.send(uuid.New(), b.user(t, "ada@example.com").Email); err != nil {
		t.Fatal(err)
	}
	b.db.Exec(t, "update code_emails set due_at = now()")
	if err := b.record(t.Context(), b.claimed(t), nil, context.DeadlineExceeded); err != nil {
		t.Error(err)
	}
	if n := pgtest.Value[int64](t, b.db, "select count(*) from code_emails"); n != 0 {
		t.Errorf("%d emails wait to be sent again", n)
	}
}

// A lease outlasts an attempt and the record of its outcome: no other server sends the email meanwhile.
func TestLeaseOutlastsTheRecord(t *testing.T) {
	t.Parallel()
	settings := telling(told)
	settings.Limits = wait.Patient
	settings.Limits.Claim, settings.Limits.MailSend, settings.Limits.Leave = time.Minute, time.Hour, time.Hour
	b := newBench(t, settings)
	b.stop()
	if err := b.send(uuid.New(), b.user(t, "ada@example.com").Email); err != nil {
		t.Fatal(err)
	}
	b.db.Exec(t, "update code_emails set due_at = now()")
	b.claimed(t)
	b.put(t, uuid.New(), "told", "x")
	b.outbox.idle.Store(true)
	if notices, _, err := b.claimNotice(t.Context(), nil, 1); err != nil || len(notices) != 1 {
		t.Fatalf("%d notices are due, %v", len(notices), err)
	}
	for _, table := range []string{"code_emails", "notices"} {
		if !pgtest.Value[bool](t, b.db, "select leased_until > now() + interval '2 hours' from "+table) {
			t.Errorf("%s: the lease ends before the outcome may be recorded", table)
		}
	}
}
