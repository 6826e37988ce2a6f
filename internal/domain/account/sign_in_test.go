package account

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// Names "4" are section 4 of the decisions: "a code of six digits: valid 10 minutes, five tries, then a new code is
// needed; at most five codes an hour for an e-mail address and thirty for a network address".

func TestSignIn4TheCodeOfTheEmailSignsIn(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{CodesPerEmail: 5, CodesPerNetwork: 30})
	ctx := context.Background()
	user := b.user(t, "Ada@Example.com")
	signIn := uuid.New()
	if err := b.send(signIn, "aDA@example.COM"); err != nil {
		t.Fatal(err)
	}
	email := b.post.Next(t)
	if email.To[0] != "Ada@Example.com" {
		t.Errorf("the email went to %q, want the address of the account", email.To)
	}
	if got, err := b.GetSignIn(ctx, signIn); err != nil || got != (SignIn{Email: "aDA@example.COM", AttemptsLeft: 5, Left: got.Left, Mail: MailSent}) ||
		(CodeLifetime-got.Left).Abs() > time.Minute {
		t.Errorf("sign-in = %+v, %v", got, err)
	}
	code := email.Code
	spaced := code[:3] + " " + code[3:]
	for range 2 { // a form sent twice
		if got, err := b.VerifyCode(ctx, signIn, spaced); err != nil || got.UserID != user.ID {
			t.Errorf("VerifyCode = %v, %v, want %v", got, err, user.ID)
		}
	}
	if _, err := b.VerifyCode(ctx, uuid.New(), code); !errors.Is(err, ErrNoSignIn) {
		t.Errorf("the code for another sign-in: %v, want ErrNoSignIn", err)
	}
}

func TestSignIn4ACodeBelongsToOneSignIn(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	b.user(t, "ada@example.com")
	one, other := uuid.New(), uuid.New()
	code := b.code(t, one, "ada@example.com")
	for b.code(t, other, "ada@example.com") == code { // once in a million
	}
	var wrong *WrongCodeError
	if _, err := b.VerifyCode(context.Background(), other, code); !errors.As(err, &wrong) {
		t.Errorf("the code of another sign-in: %v, want a wrong code", err)
	}
}

func TestSignIn4TenMinutes(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	ctx := context.Background()
	user := b.user(t, "ada@example.com")
	signIn := uuid.New()
	code := b.code(t, signIn, "ada@example.com")
	b.db.Clock.Advance(10*time.Minute - 10*time.Second)
	if got, err := b.VerifyCode(ctx, signIn, code); err != nil || got.UserID != user.ID {
		t.Errorf("shortly before 10 minutes: %v", err)
	}
	b.db.Clock.Advance(10 * time.Second)
	if _, err := b.VerifyCode(ctx, signIn, code); !errors.Is(err, ErrCodeExpired) {
		t.Errorf("after 10 minutes: %v, want ErrCodeExpired", err)
	}
	if got, err := b.GetSignIn(ctx, signIn); err != nil || !got.Expired {
		t.Errorf("sign-in after 10 minutes = %+v, %v", got, err)
	}
	code = b.code(t, signIn, "ada@example.com")
	if _, err := b.VerifyCode(ctx, signIn, code); err != nil {
		t.Errorf("a new code: %v", err)
	}
}

func TestSignIn4FiveAttempts(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	ctx := context.Background()
	user := b.user(t, "ada@example.com")
	signIn := uuid.New()
	code := b.code(t, signIn, "ada@example.com")
	for _, malformed := range []string{"", "12345", "1234567", "12345a", "12345½", "12345\u0301", "-"} {
		if _, err := b.VerifyCode(ctx, signIn, malformed); !errors.Is(err, ErrMalformedCode) {
			t.Errorf("%q: %v, want ErrMalformedCode", malformed, err)
		}
	}
	for left := 4; left >= 1; left-- {
		_, err := b.VerifyCode(ctx, signIn, wrong(code))
		var wrong *WrongCodeError
		if !errors.As(err, &wrong) || wrong.AttemptsLeft != left {
			t.Fatalf("wrong code: %v, want %d attempts left", err, left)
		}
	}
	for range 2 { // a form sent twice
		if got, err := b.VerifyCode(ctx, signIn, code); err != nil || got.UserID != user.ID {
			t.Errorf("the fifth try, right: %v", err)
		}
	}
	if _, err := b.VerifyCode(ctx, signIn, wrong(code)); !errors.As(err, new(*WrongCodeError)) {
		t.Errorf("the fifth wrong try: %v", err)
	}
	if _, err := b.VerifyCode(ctx, signIn, code); !errors.Is(err, ErrCodeSpent) {
		t.Errorf("the sixth try: %v, want ErrCodeSpent", err)
	}
	old := code
	code = b.code(t, signIn, "ada@example.com")
	if code != old {
		if _, err := b.VerifyCode(ctx, signIn, old); err == nil {
			t.Error("the replaced code still signs in")
		}
	}
	if _, err := b.VerifyCode(ctx, signIn, code); err != nil {
		t.Errorf("a new code: %v", err)
	}
}

// TestDigits: people paste codes from emails, type them on all keyboards, and separate the digits.
func TestDigits(t *testing.T) {
	t.Parallel()
	for _, typed := range []string{
		"012345", " 012 345\n", "012-345", "012\u2013345", "012\u00a0345", "\u202a012345\u202c", "0\u200b1\u200b2345", "\ufeff012345\x00",
		"“012345”", "Code: 012 345.", "012345 is your Activity Connect code",
		"０１２３４５", "٠١٢٣٤٥", "۰۱۲۳۴۵", "०१२३४५", "𝟎𝟏𝟐𝟑𝟒𝟓", "𝟶𝟷𝟸𝟹𝟺𝟻",
	} {
		if got := digits(typed); got != "012345" {
			t.Errorf("%q is %q", typed, got)
		}
	}
	for zero := rune(0); zero < 0x20000; zero++ { // each script has its ten digits one after the other
		if unicode.Is(unicode.Nd, zero) && digitValue(zero) == 0 {
			for value := range rune(10) {
				if got := digitValue(zero + value); got != value || !unicode.Is(unicode.Nd, zero+value) {
					t.Errorf("%U is %d, want %d", zero+value, got, value)
				}
			}
		}
	}
	if got := digits("12a345½"); got != "12a345" {
		t.Errorf("a character that is not a digit was left out: %q", got)
	}
}

// TestSignIn4FiveAttemptsAtOnce guesses from many connections at one time: five learn something, the rest nothing.
func TestSignIn4FiveAttemptsAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	b.user(t, "ada@example.com")
	signIn := uuid.New()
	code := b.code(t, signIn, "ada@example.com")
	left := make([]atomic.Int32, 5)
	var spent atomic.Int32
	var group sync.WaitGroup
	for range 40 {
		group.Go(func() {
			_, err := b.VerifyCode(context.Background(), signIn, wrong(code))
			var wrong *WrongCodeError
			switch {
			case errors.As(err, &wrong):
				left[wrong.AttemptsLeft].Add(1)
			case errors.Is(err, ErrCodeSpent):
				spent.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	group.Wait()
	for n := range left {
		if got := left[n].Load(); got != 1 {
			t.Errorf("%d results of %d attempts left, want 1", got, n)
		}
	}
	if got := spent.Load(); got != 35 {
		t.Errorf("%d attempts found the code spent, want 35", got)
	}
}

func TestSignIn4CodesAnHour(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		settings Settings
		limit    int
		email    func(i int) string
		network  func(i int) string
	}{
		{"e-mail", Settings{CodesPerEmail: 5, CodesPerNetwork: 30}, 5,
			func(i int) string { return []string{"nobody@example.com", "NOBODY@example.com"}[i%2] },
			func(i int) string { return fmt.Sprintf("192.0.2.%d", i%5) }},
		{"IPv4 address", Settings{CodesPerEmail: 5, CodesPerNetwork: 30}, 30,
			func(i int) string { return fmt.Sprintf("n%d@example.com", i) },
			func(i int) string { return []string{"192.0.2.1", "::ffff:192.0.2.1"}[i%2] }},
		{"IPv6 network", Settings{CodesPerEmail: 5, CodesPerNetwork: 7}, 7,
			func(i int) string { return fmt.Sprintf("n%d@example.com", i) },
			func(i int) string { return fmt.Sprintf("2001:db8:1:2:%x::1", i) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, test.settings)
			ask := func(i int) error {
				return b.SendCode(context.Background(), CodeRequest{
					SignIn: uuid.New(), Email: test.email(i), Network: netip.MustParseAddr(test.network(i)),
				})
			}
			for i := range test.limit {
				if err := ask(i); err != nil {
					t.Fatalf("code %d: %v", i+1, err)
				}
				if i == 0 {
					b.db.Clock.Advance(10 * time.Minute)
				}
			}
			refused := func(until time.Duration) {
				t.Helper()
				err := ask(test.limit)
				if !errors.Is(err, ErrTooManyCodes) {
					t.Fatalf("code %d: %v, want ErrTooManyCodes", test.limit+1, err)
				}
				limited := new(TooManyCodesError)
				if !errors.As(err, &limited) || (limited.Wait-until).Abs() > 5*time.Second ||
					b.db.Now().Add(until).Sub(limited.Next).Abs() > 5*time.Second {
					t.Errorf("refused until %s, for %s; want %s", limited.Next, limited.Wait, until)
				}
			}
			refused(50 * time.Minute)
			b.db.Clock.Advance(50*time.Minute - 10*time.Second)
			refused(10 * time.Second)
			b.db.Clock.Advance(10 * time.Second) // the first code is an hour old, and was the only one of its time
			if err := ask(0); err != nil {
				t.Errorf("an hour after the first: %v", err)
			}
			refused(10 * time.Minute) // what was refused did not count, and nothing else has become old
		})
	}
}

// TestSignIn4LimitsAreCountedTogetherOrNotAtAll: what the network's limit refuses does not count for the address.
func TestSignIn4LimitsAreCountedTogetherOrNotAtAll(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{CodesPerEmail: 1, CodesPerNetwork: 1})
	ask := func(email, network string) error {
		return b.SendCode(context.Background(), CodeRequest{SignIn: uuid.New(), Email: email, Network: netip.MustParseAddr(network)})
	}
	if err := ask("a@example.com", "192.0.2.1"); err != nil {
		t.Fatal(err)
	}
	if err := ask("b@example.com", "192.0.2.1"); !errors.Is(err, ErrTooManyCodes) {
		t.Errorf("the network's second: %v, want ErrTooManyCodes", err)
	}
	if err := ask("b@example.com", "192.0.2.2"); err != nil {
		t.Errorf("the address was counted though nothing was sent: %v", err)
	}
	if err := ask("c@example.com", "2001:db8:1:2::1"); err != nil {
		t.Fatal(err)
	}
	if err := ask("d@example.com", "2001:db8:1:3::1"); err != nil {
		t.Errorf("another /64 is another network: %v", err)
	}
}

func TestSignIn4LimitsAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{CodesPerEmail: 5, CodesPerNetwork: 30})
	var sent atomic.Int32
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			switch err := b.send(uuid.New(), "nobody@example.com"); {
			case err == nil:
				sent.Add(1)
			case !errors.Is(err, ErrTooManyCodes):
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := sent.Load(); got != 5 {
		t.Errorf("%d codes, want 5", got)
	}
}

func TestSignIn4ZeroIsNoLimit(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	for i := range 40 {
		if err := b.send(uuid.New(), "nobody@example.com"); err != nil {
			t.Fatalf("code %d: %v", i+1, err)
		}
	}
	const counted = "select count(*) from sign_in_limits where cardinality(asked_at) > 1"
	if got := pgtest.Value[int64](t, b.db, counted); got != 0 {
		t.Errorf("%d limits were counted", got)
	}
}

// TestSignIn4UnknownAddress compares everything that an address without account leaves behind with what one with an
// account does: results, rows, attempts.
func TestSignIn4UnknownAddress(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{CodesPerEmail: 3, CodesPerNetwork: 30})
	ctx := context.Background()
	b.user(t, "known@example.com")

	type trace struct {
		Answers []string
		SignIn  string
		Rows    string
	}
	observe := func(email string) trace {
		var got trace
		answer := func(err error) { got.Answers = append(got.Answers, fmt.Sprint(err)) }
		signIn := uuid.New()
		answer(b.send(signIn, email))
		for range 6 {
			_, err := b.VerifyCode(ctx, signIn, "000000")
			answer(err)
		}
		for range 3 {
			b.settled(t) // or the next email would replace this one
			answer(b.send(signIn, email))
		}
		b.settled(t)
		found, err := b.GetSignIn(ctx, signIn)
		if err != nil {
			t.Fatal(err)
		}
		got.SignIn = fmt.Sprint(found.AttemptsLeft, found.Expired, found.Mail)
		got.Rows = pgtest.Value[string](t, b.db, `select format('%s %s %s', attempts, octet_length(seed),
			expires_at - connect_now() between interval '9 minutes 50 seconds' and interval '10 minutes')
			from sign_ins where sign_in_id = $1`, signIn)
		return got
	}
	known, unknown := observe("known@example.com"), observe("unknown@example.com")
	if diff := cmp.Diff(known, unknown); diff != "" {
		t.Errorf("known and unknown address differ:\n%s", diff)
	}
	if got := b.post.Waiting(); got != 3 {
		t.Errorf("%d emails, want the 3 to the known address", got)
	}
	if n := pgtest.Value[int64](t, b.db, "select count(*) from sign_in_limits where cardinality(asked_at) = 3"); n != 4 {
		t.Errorf("%d limits counted three times, want 2 for each address", n)
	}
}

// TestSignIn4AnUnknownAddressNeverSignsIn gives even the right code of an address without account.
func TestSignIn4AnUnknownAddressNeverSignsIn(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	signIn := uuid.New()
	if err := b.send(signIn, "unknown@example.com"); err != nil {
		t.Fatal(err)
	}
	_, err := b.VerifyCode(context.Background(), signIn, b.codeNow(t, signIn))
	if diff := cmp.Diff("wrong code, 4 attempts left", fmt.Sprint(err)); diff != "" {
		t.Error(diff)
	}
}

func TestSendCodeRefusesWhatIsNoAddress(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	for _, email := range []string{"", "nobody", "a@b\x00", "Nobody <nobody@>"} {
		if err := b.send(uuid.New(), email); !errors.Is(err, ErrInvalidEmail) {
			t.Errorf("%q: %v, want ErrInvalidEmail", email, err)
		}
	}
	if n := pgtest.Value[int64](t, b.db, "select count(*) from sign_ins"); n != 0 {
		t.Errorf("%d sign-ins were stored", n)
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{CodesPerEmail: 5})
	count := func() [2]int64 {
		if err := b.Sweep(context.Background(), b.db.Now()); err != nil {
			t.Fatal(err)
		}
		return [2]int64{
			pgtest.Value[int64](t, b.db, "select count(*) from sign_ins"),
			pgtest.Value[int64](t, b.db, "select count(*) from sign_in_limits"),
		}
	}
	if err := b.send(uuid.New(), "nobody@example.com"); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		after time.Duration
		want  [2]int64
	}{
		{9 * time.Minute, [2]int64{1, 2}},
		{10 * time.Minute, [2]int64{0, 2}},
		{23 * time.Hour, [2]int64{0, 2}},
		{24 * time.Hour, [2]int64{0, 0}},
	} {
		b.db.Clock.Set(test.after)
		if got := count(); got != test.want {
			t.Errorf("after %v: %v rows of sign-ins and limits, want %v", test.after, got, test.want)
		}
	}
}

// A code that is asked for while a sweep finds the last one of long ago works: neither its sign-in nor the count of its attempts is deleted.
func TestSweepMeetsANewCode(t *testing.T) {
	pgtest.NotOnCluster(t, "the node does not know what its shards wait for")
	t.Parallel()
	for name, sameSignIn := range map[string]bool{"the same sign-in": true, "another sign-in": false} {
		b := newBench(t, Settings{CodesPerEmail: 5, CodesPerNetwork: 30})
		user, signIn := b.user(t, "ada@example.com"), uuid.New()
		b.code(t, signIn, user.Email)
		b.settled(t)
		b.db.Clock.Advance(25 * time.Hour)
		if !sameSignIn {
			signIn = uuid.New()
		}
		asking, err := b.db.Pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer asking.Rollback(t.Context()) //nolint:errcheck // it was committed, or the test has failed
		request := CodeRequest{SignIn: signIn, Email: user.Email, Network: netip.MustParseAddr("192.0.2.1"), LinkPath: "/account/link"}
		if err := b.storeCodeIn(t.Context(), b.queries.WithTx(asking), request, time.Hour, new(logEntry)); err != nil {
			t.Fatal(err)
		}
		swept := make(chan error, 1)
		go func() { swept <- b.Sweep(t.Context(), b.db.Now().Add(-5*time.Minute)) }()
		b.waits(t, "the sweep")
		if err := asking.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := wait.For(t, "the sweep", swept); err != nil {
			t.Error(err)
		}
		if n := pgtest.Value[int64](t, b.db, "select count(*) from sign_ins where sign_in_id = $1", signIn); n != 1 {
			t.Errorf("%s: the code is gone", name)
		} else if _, err := b.VerifyCode(t.Context(), signIn, b.codeNow(t, signIn)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
