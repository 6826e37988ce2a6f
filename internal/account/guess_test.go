package account

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/testing/pgtest"
)

// guess asks for a code for the address, from a network that never limits it, and tries five wrong ones. It returns how many
// were compared: five, or none where no code was sent.
func (b *bench) guess(t *testing.T, email string, keys ...BrowserKey) (guesses int) {
	t.Helper()
	signIn := uuid.New()
	err := b.SendCode(t.Context(), CodeRequest{SignIn: signIn, Email: email, Known: keys})
	if errors.Is(err, ErrTooManyCodes) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	guess := wrong(b.codeNow(t, signIn))
	for range 5 {
		var wrong *WrongCodeError
		if _, err := b.VerifyCode(t.Context(), signIn, guess); !errors.As(err, &wrong) {
			t.Fatalf("a wrong code: %v", err)
		}
		guesses++
	}
	return guesses
}

// TestGuessesAreBounded asks for codes of one address whenever one is sent, for a year, and guesses all that it can. The
// threat model has the figures.
func TestGuessesAreBounded(t *testing.T) {
	t.Parallel()
	// With a limit of codes and without one, with an account and without one.
	for codesPerEmail, email := range map[int]string{5: "victim@example.com", 0: "nobody@example.com"} {
		t.Run(fmt.Sprint(codesPerEmail, email), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, Settings{CodesPerEmail: codesPerEmail})
			b.user(t, "victim@example.com")
			const day = 24 * time.Hour
			sum, after := 0, map[string]int{}
			for now := time.Duration(0); now < 365*day; {
				got := b.guess(t, email)
				sum += got
				switch {
				case now == 0:
					after["at once"] = sum
				case now < day:
					after["in a day"] = sum
				case now < 30*day:
					after["in 30 days"] = sum
				}
				if got == 0 {
					step := time.Hour
					if now >= day {
						step = 6 * time.Hour
					}
					now += step
					b.db.Clock.Set(now)
				}
			}
			after["in a year"] = sum
			if diff := cmp.Diff(threatModel(t), after); diff != "" {
				t.Errorf("guesses (-threat model +got):\n%s", diff)
			}
		})
	}
}

// threatModel are the figures of the table of guesses.
func threatModel(t *testing.T) map[string]int {
	t.Helper()
	document, err := os.ReadFile("../../docs/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	figures := map[string]int{}
	for _, row := range regexp.MustCompile(`(?m)^\| (at once|in a day|in 30 days|in a year) \| ([\d,]+) \| ([\d.]+) % \|$`).
		FindAllStringSubmatch(string(document), -1) {
		guesses, err := strconv.Atoi(strings.ReplaceAll(row[2], ",", ""))
		if err != nil {
			t.Fatal(err)
		}
		if percent := fmt.Sprintf("%.2g", float64(guesses)/1e6*100); percent != row[3] {
			t.Errorf("%d guesses are %s %%, not %s", guesses, percent, row[3])
		}
		figures[row[1]] = guesses
	}
	return figures
}

// TestNextCode: when the page says that another code can be asked for, with and without an account.
func TestNextCode(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{CodesPerEmail: 2, CodesPerNetwork: 3})
	b.user(t, "known@example.com")
	for _, email := range []string{"known@example.com", "unknown@example.com"} {
		signIn, began := uuid.New(), b.db.Now()
		next := func(network string) time.Duration {
			t.Helper()
			found, err := b.GetSignIn(t.Context(), signIn)
			if err != nil {
				t.Fatal(err)
			}
			at, _, err := b.NextCode(t.Context(), found, netip.MustParseAddr(network))
			if err != nil {
				t.Fatal(err)
			}
			if at.IsZero() {
				return 0
			}
			return at.Sub(began).Round(time.Minute)
		}
		send := func(email string) {
			t.Helper()
			if err := b.send(signIn, email); err != nil {
				t.Fatal(err)
			}
			b.settled(t)
		}
		var got []time.Duration
		send(email)
		got = append(got, next("192.0.2.1"))
		b.db.Clock.Advance(10 * time.Minute)
		send(email)
		got = append(got, next("192.0.2.1")) // the limit of the address
		b.db.Clock.Advance(10 * time.Minute)
		signIn = uuid.New()
		send("other-" + email)
		got = append(got, next("192.0.2.1"), next("192.0.2.2")) // the limit of one network
		b.db.Exec(t, "update sign_in_limits set failed = 20")
		got = append(got, next("192.0.2.2"))
		b.db.Exec(t, "update sign_in_limits set failed = 100")
		got = append(got, next("192.0.2.2"))
		const m, h = time.Minute, time.Hour
		if diff := cmp.Diff([]time.Duration{0, 60 * m, 60 * m, 0, 80 * m, 24*h + 20*m}, got); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", email, diff)
		}
		b.db.Exec(t, "delete from sign_in_limits")
	}
}

// TestARightCodeBeginsTheBudgetAnew: failed attempts are counted since the last success.
func TestARightCodeBeginsTheBudgetAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	b.user(t, "ada@example.com")
	for range 3 {
		b.guess(t, "ada@example.com")
	}
	for range 3 {
		b.post.Next(t)
	}
	signIn := uuid.New()
	if _, err := b.VerifyCode(t.Context(), signIn, b.code(t, signIn, "ADA@example.com")); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if b.guess(t, "ada@example.com") == 0 {
			t.Fatalf("no code after %d wrong ones since the last success", 5*i)
		}
	}
	if b.guess(t, "ada@example.com") != 0 {
		t.Error("a code at once, after 20 wrong ones")
	}
}

// signInWith signs in from a browser that has these keys, and returns those that it has then.
func (b *bench) signInWith(t *testing.T, user User, keys ...BrowserKey) []BrowserKey {
	t.Helper()
	signIn := uuid.New()
	if err := b.SendCode(t.Context(), CodeRequest{SignIn: signIn, Email: user.Email, Known: keys}); err != nil {
		t.Fatal(err)
	}
	verified, err := b.VerifyCode(t.Context(), signIn, b.post.Next(t).Code)
	if err != nil {
		t.Fatal(err)
	}
	key, err := b.RememberBrowser(t.Context(), verified.UserID, keys, "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
	if err != nil {
		t.Fatal(err)
	}
	return []BrowserKey{key}
}

// TestAKnownBrowserHasItsOwnBudget: while strangers guess, the owner gets in; and what is guessed in a browser of the
// owner's is bounded as well.
func TestAKnownBrowserHasItsOwnBudget(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{CodesPerEmail: 5})
	ada, bob := b.user(t, "ada@example.com"), b.user(t, "bob@example.com")
	first := b.signInWith(t, ada)
	b.db.Clock.Advance(179 * 24 * time.Hour)
	for b.guess(t, ada.Email) > 0 {
		b.post.Next(t)
	}
	owners := b.signInWith(t, ada, first...)
	if b.guess(t, ada.Email) != 0 {
		t.Error("the owner's sign-in gave strangers another code")
	}
	for name, keys := range map[string][]BrowserKey{
		"the key before":        first,
		"a key of another user": b.signInWith(t, bob),
		"another secret":        {{UserID: ada.ID, Secret: [32]byte{1}}},
		"the user's id alone":   {{UserID: ada.ID}},
	} {
		if b.guess(t, ada.Email, keys...) != 0 {
			t.Errorf("%s is a budget", name)
		}
	}
	sum := 0
	for n := -1; n != 0; sum += n {
		if n = b.guess(t, ada.Email, owners...); n > 0 {
			b.post.Next(t)
		}
	}
	if sum != 20 {
		t.Errorf("%d guesses at once in a known browser, want 20", sum)
	}
	b.db.Clock.Advance(180*24*time.Hour + time.Second)
	if err := b.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := pgtest.Value[int64](t, b.db, "select count(*) from known_browsers"); n != 0 {
		t.Errorf("%d browsers are known after 180 days", n)
	}
}

func TestBrowsersOfAnAccount(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	ada := b.user(t, "ada@example.com")
	known := func() []Browser {
		t.Helper()
		browsers, err := b.Browsers(t.Context(), ada.ID)
		if err != nil {
			t.Fatal(err)
		}
		return browsers
	}
	oldest := b.signInWith(t, ada)
	b.db.Clock.Advance(time.Minute)
	var group sync.WaitGroup
	for range 12 {
		group.Go(func() {
			if _, err := b.RememberBrowser(context.Background(), ada.ID, nil, "made up/1.0 (\x00<b>)"); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := known(); len(got) != 10 || got[9].Is(oldest) || got[0].Name != "" {
		t.Errorf("%d browsers are known, want 10; the last is the oldest: %t", len(got), got[9].Is(oldest))
	}
	b.db.Clock.Advance(time.Minute)
	latest := b.signInWith(t, ada)
	if got := known()[0]; !got.Is(latest) || got.Is(oldest) || got.Name != "Firefox (Linux)" {
		t.Errorf("the latest is %+v", got)
	}

	here, there := b.session(t, ada.Email), b.session(t, ada.Email)
	if err := b.ForgetBrowser(t.Context(), here, known()[0].ID); err != nil {
		t.Fatal(err)
	}
	if got := known(); len(got) != 9 || got[0].Is(latest) {
		t.Error("it is still known")
	}
	if _, err := b.GetSession(t.Context(), here); err != nil {
		t.Errorf("the session that forgot it: %v", err)
	}
	if _, err := b.GetSession(t.Context(), there); !errors.Is(err, ErrNoSession) {
		t.Errorf("another session: %v, want none", err)
	}

	email := "ada@new.example"
	if _, err := b.ChangeUser(t.Context(), ada.ID, UserChange{Email: &email}); err != nil {
		t.Fatal(err)
	}
	if got := known(); len(got) != 0 {
		t.Errorf("%d browsers are known by a new address", len(got))
	}
	if _, err := b.RememberBrowser(t.Context(), uuid.New(), nil, ""); !errors.Is(err, ErrUserNotFound) {
		t.Errorf("a browser of a user who was deleted: %v", err)
	}
}

// TestSignIn4NetworksOfIPv6: who has many /64 networks has few of the next sizes.
func TestSignIn4NetworksOfIPv6(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		ask  func(i int) string
		want int
	}{
		{"/64", func(i int) string { return fmt.Sprintf("2001:db8:1:100::%x", i) }, 2},
		{"/56", func(i int) string { return fmt.Sprintf("2001:db8:1:1%02x::1", i) }, 8},
		{"/48", func(i int) string { return fmt.Sprintf("2001:db8:1:%x00::1", i) }, 32},
		{"many", func(i int) string { return fmt.Sprintf("2001:db8:%x::1", i) }, 40},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, Settings{CodesPerNetwork: 2})
			sent := 0
			for i := range 40 {
				err := b.SendCode(t.Context(), CodeRequest{
					SignIn: uuid.New(), Email: fmt.Sprintf("n%d@example.com", i), Network: netip.MustParseAddr(test.ask(i)),
				})
				if err == nil {
					sent++
				} else if !errors.Is(err, ErrTooManyCodes) {
					t.Fatal(err)
				}
			}
			if sent != test.want {
				t.Errorf("%d codes, want %d", sent, test.want)
			}
		})
	}
}

func TestBrowserName(t *testing.T) {
	t.Parallel()
	for agent, want := range map[string]string{
		"": "", "curl/8.5.0": "", "\xff\xfe(((": "", "<script>/1 (evil)": "",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36":                         "Chrome (Windows)",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0":           "Edge (Windows)",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1": "Safari (iOS)",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10.15; rv:140.0) Gecko/20100101 Firefox/140.0":                                                    "Firefox (macOS)",
	} {
		if got := browserName(agent); got != want {
			t.Errorf("%q is named %q, want %q", agent, got, want)
		}
	}
}
