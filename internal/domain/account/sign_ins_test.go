package account

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/mailtest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// logged waits until the log of an address has so many events, and returns their kinds, oldest first.
func (b *bench) logged(t *testing.T, email string, events int) (found SignInLog, kinds []string) {
	t.Helper()
	wait.Until(t, fmt.Sprintf("%d events", events), func() bool {
		var err error
		if found, err = b.SignIns(t.Context(), email); err != nil {
			t.Fatal(err)
		}
		return len(found.Events) >= events
	})
	for _, event := range slices.Backward(found.Events) {
		kinds = append(kinds, strings.TrimSpace(string(event.Kind)+" "+event.Limit))
	}
	return found, kinds
}

// The log tells what happened to each sign-in of an address, with and without an account.
func TestSignInLog(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{CodesPerEmail: 5, CodesPerNetwork: 30})
	b.user(t, "Ada@Example.com")
	signIn := uuid.New()
	code := b.code(t, signIn, "aDA@example.COM")
	b.logged(t, "ada@example.com", 2)
	if _, err := b.VerifyCode(t.Context(), signIn, wrong(code)); err == nil {
		t.Fatal("a wrong code signs in")
	}
	for range 2 { // a form sent twice
		if _, err := b.VerifyCode(t.Context(), signIn, code); err != nil {
			t.Fatal(err)
		}
	}
	b.settled(t)
	found, kinds := b.logged(t, "ada@EXAMPLE.com", 4)
	if diff := cmp.Diff([]string{"asked", "sent", "wrong", "signed_in"}, kinds); diff != "" {
		t.Errorf("with an account (-want +got):\n%s", diff)
	}
	if sent := found.Events[2]; sent.Detail != "2.0.0 taken" || sent.SignIn != signIn || found.Events[1].Detail != "1" {
		t.Errorf("events: %+v", found.Events)
	}
	if !found.NextCodeAt.IsZero() || !found.CodesWork || found.Events[3].Waiting {
		t.Errorf("the state: %+v", found)
	}

	other := uuid.New()
	if err := b.send(other, "nobody@example.com"); err != nil {
		t.Fatal(err)
	}
	b.settled(t)
	b.db.Clock.Advance(CodeLifetime)
	for range 2 {
		if _, err := b.VerifyCode(t.Context(), other, "123456"); !errors.Is(err, ErrCodeExpired) {
			t.Fatal(err)
		}
	}
	if _, kinds := b.logged(t, "nobody@example.com", 3); !slices.Equal(kinds, []string{"asked", "no_account", "expired"}) {
		t.Errorf("without an account: %v", kinds)
	}
	if found, err := b.SignIns(t.Context(), "else@example.com"); err != nil || len(found.Events) != 0 || !found.CodesWork {
		t.Errorf("of another address: %+v, %v", found, err)
	}
	if found, err := b.SignIns(t.Context(), "x\x00"); err != nil || len(found.Events) != 0 {
		t.Errorf("of no address: %+v, %v", found, err)
	}
	stored := pgtest.Value[string](t, b.db, "select string_agg(event || ' ' || detail, ' ') from sign_in_events")
	for _, never := range []string{code, "ada", "nobody", "@"} {
		if strings.Contains(strings.ToLower(stored), never) {
			t.Errorf("%q is stored", never)
		}
	}
}

// Attempts that a code no longer has are one event.
func TestSignInLogOfSpentCodes(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	user, signIn := b.user(t, "ada@example.com"), uuid.New()
	code := b.code(t, signIn, user.Email)
	b.logged(t, user.Email, 2)
	for range Attempts + 3 {
		if _, err := b.VerifyCode(t.Context(), signIn, wrong(code)); err == nil {
			t.Fatal("a wrong code signs in")
		}
	}
	if _, kinds := b.logged(t, user.Email, 8); !slices.Equal(kinds[2:], []string{"wrong", "wrong", "wrong", "wrong", "wrong", "spent"}) {
		t.Errorf("events: %v", kinds)
	}
}

// The log says which limit refused and until when, once however often it does. Refusals by the limit of a network are bounded, so
// that strangers cannot fill the database with addresses that they make up.
func TestSignInLogOfRefusals(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{CodesPerEmail: 2, CodesPerNetwork: 3})
	send := func(email, network string) error {
		return b.SendCode(t.Context(), CodeRequest{SignIn: uuid.New(), Email: email, Network: netip.MustParseAddr(network)})
	}
	for range 2 {
		if err := send("ada@example.com", "192.0.2.1"); err != nil {
			t.Fatal(err)
		}
	}
	tooMany := new(TooManyCodesError)
	for range 5 {
		if err := send("Ada@example.com", "192.0.2.1"); !errors.As(err, &tooMany) || tooMany.Limit != "address" {
			t.Fatalf("the third one: %v, %+v", err, tooMany)
		}
	}
	found, kinds := b.logged(t, "ada@example.com", 5)
	if diff := cmp.Diff([]string{"asked", "asked", "no_account", "no_account", "refused address"}, slices.Sorted(slices.Values(kinds))); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	i := slices.IndexFunc(found.Events, func(e SignInEvent) bool { return e.Kind == codeRefused })
	if until := found.Events[i].Until; !until.Equal(tooMany.Next) || !found.NextCodeAt.Equal(tooMany.Next) {
		t.Errorf("until %v and %v, want %v", until, found.NextCodeAt, tooMany.Next)
	}

	if err := send("bob@example.com", "192.0.2.1"); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if err := send(fmt.Sprintf("made-up-%d@example.com", i), "192.0.2.1"); !errors.As(err, &tooMany) || tooMany.Limit != "network" {
			t.Fatalf("of a network without codes left: %v, %+v", err, tooMany)
		}
	}
	b.settled(t)
	b.stop() // it stores what waits
	if n := pgtest.Value[int64](t, b.db, "select count(*) from sign_in_events where limited_by = 'network'"); n != 3 {
		t.Errorf("%d refusals by the limit of a network were stored, want 3", n)
	}
}

// The answer of a mail server is in the log without the address, whether the email waits or was given up.
func TestSignInLogOfTheMailServer(t *testing.T) {
	t.Parallel()
	post := mailtest.Start(t, mailtest.Config{
		Reply: mailtest.Saying("RCPT", "452-4.2.2 <ada@example.com> is over quota,\n452 4.2.2 subject 123456"),
	})
	b := newBenchOn(t, newDB(t), post, "smtp://"+post.Address, Settings{})
	user, signIn := b.user(t, "ada@example.com"), uuid.New()
	if err := b.send(signIn, user.Email); err != nil {
		t.Fatal(err)
	}
	b.attempted(t, 1)
	found, kinds := b.logged(t, user.Email, 2)
	if !slices.Equal(kinds, []string{"asked", "delayed"}) || !found.Events[1].Waiting {
		t.Errorf("events: %+v", found.Events)
	}
	if want := "452 4.2.2 <[address]> is over quota, 4.2.2 subject [digits]"; found.Events[0].Detail != want {
		t.Errorf("the answer is %q, want %q", found.Events[0].Detail, want)
	}
	b.db.Exec(t, "update code_emails set put_at = now() - interval '1 hour'")
	b.hurry(t)
	b.settled(t)
	found, kinds = b.logged(t, user.Email, 3)
	if !slices.Equal(kinds, []string{"asked", "delayed", "failed"}) || found.Events[2].Waiting {
		t.Errorf("events: %+v", found.Events)
	}
}

// An operator lifts the limits of an address once: they begin anew, and count again.
func TestLiftSignInLimits(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{CodesPerEmail: 1, CodesPerNetwork: 100})
	user := b.user(t, "ada@example.com")
	refused := new(TooManyCodesError)
	for range 3 {
		for range 2 { // half of a day's from one network, the rest from others
			b.db.Clock.Advance(time.Hour)
			if err := b.send(uuid.New(), user.Email); err != nil && !errors.As(err, &refused) {
				t.Fatal(err)
			}
		}
	}
	if refused.Limit != addressInNetwork {
		t.Fatalf("refused by %q", refused.Limit)
	}
	b.settled(t)
	b.eventually(t, "select count(*) > 0 from sign_in_events where limited_by = 'address_in_network'")
	b.db.Exec(t, "update sign_in_limits set failed = 100")
	if found, err := b.SignIns(t.Context(), user.Email); err != nil || found.CodesWork {
		t.Errorf("before: %+v, %v", found, err)
	}
	ada := work.WithActor(t.Context(), "ada")
	if err := b.LiftSignInLimits(ada, user.ID); err != nil {
		t.Fatal(err)
	}
	found, err := b.SignIns(t.Context(), user.Email)
	if err != nil || !found.CodesWork || !found.NextCodeAt.IsZero() || found.Events[0].Kind != limitsLifted || found.Events[0].Detail != "ada" {
		t.Errorf("after: %+v, %v", found, err)
	}
	if err := b.send(uuid.New(), user.Email); err != nil {
		t.Errorf("after the limits were lifted: %v", err)
	}
	if err := b.send(uuid.New(), user.Email); !errors.Is(err, ErrTooManyCodes) {
		t.Errorf("they were lifted more than once: %v", err)
	}
	if n := pgtest.Value[int64](t, b.db, "select count(*) from audit_log where subject = $1 and actor = 'ada' and action = 'sign_in.limits_lifted'", user.ID); n != 1 {
		t.Errorf("%d entries in the audit log", n)
	}
	if err := b.LiftSignInLimits(ada, uuid.New()); !errors.Is(err, refusal.ErrUserNotFound) {
		t.Errorf("of nobody: %v", err)
	}
}

// Limits of networks protect others: they stay.
func TestLiftLeavesNetworks(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{CodesPerEmail: 5, CodesPerNetwork: 1})
	user := b.user(t, "ada@example.com")
	if err := b.send(uuid.New(), user.Email); err != nil {
		t.Fatal(err)
	}
	b.logged(t, user.Email, 1)
	if err := b.LiftSignInLimits(t.Context(), user.ID); err != nil {
		t.Fatal(err)
	}
	if err := b.send(uuid.New(), user.Email); !errors.Is(err, ErrTooManyCodes) {
		t.Errorf("the limit of a network was lifted: %v", err)
	}
}

// Sign-ins work the same without their log: no request waits for it, and it goes on when it can.
func TestSignInsDoNotNeedTheirLog(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	user, signIn := b.user(t, "ada@example.com"), uuid.New()
	b.db.Define(t, "alter table sign_in_events rename to gone")
	code := b.code(t, signIn, user.Email)
	if _, err := b.VerifyCode(t.Context(), signIn, code); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "an event is lost", func() bool { return strings.Contains(b.log.String(), "events of sign-ins could not be written") })
	if strings.Contains(b.log.String(), "ada@") || strings.Contains(b.log.String(), code) {
		t.Error("the log has an address or a code")
	}
	b.db.Define(t, "alter table gone rename to sign_in_events")
	b.stop()
	b.eventually(t, "select count(*) > 0 from sign_in_events")

	idle := New(b.db.Pool, b.keys, nil, Settings{Limits: wait.Patient}) // nothing runs: the request alone stores no event
	before := pgtest.Value[int64](t, b.db, "select count(*) from sign_in_events")
	for range mostLogged + 10 {
		idle.log(logEntry{signIn: uuid.New(), event: codeAsked})
	}
	if err := idle.storeCode(t.Context(), CodeRequest{SignIn: uuid.New(), Email: user.Email}, time.Hour); err != nil {
		t.Fatal(err)
	}
	waiting, _ := idle.signIns.Waiting()
	if n := pgtest.Value[int64](t, b.db, "select count(*) from sign_in_events"); n != before || waiting != mostLogged {
		t.Errorf("%d events were stored by requests, and %d wait", n-before, waiting)
	}
}

// Events are kept for seven days.
func TestSweepOfTheLog(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	if err := b.send(uuid.New(), "nobody@example.com"); err != nil {
		t.Fatal(err)
	}
	b.settled(t)
	b.logged(t, "nobody@example.com", 2)
	for _, test := range []struct {
		after time.Duration
		want  int64
	}{{7*day - time.Minute, 2}, {7*day + time.Minute, 0}} {
		if err := b.Sweep(context.Background(), b.db.Now().Add(test.after)); err != nil {
			t.Fatal(err)
		}
		if n := pgtest.Value[int64](t, b.db, "select count(*) from sign_in_events"); n != test.want {
			t.Errorf("after %s: %d events, want %d", test.after, n, test.want)
		}
	}
}
