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

// guess asks for a code for the address, from this network, and tries wrong ones. It returns how many were compared: none where no
// email was sent, or no code works.
func (b *bench) guess(t *testing.T, email, network string, keys ...BrowserKey) (guesses int) {
	t.Helper()
	signIn := uuid.New()
	err := b.SendCode(t.Context(), CodeRequest{SignIn: signIn, Email: email, Network: netip.MustParseAddr(network), Known: keys, LinkPath: "/account/link"})
	if errors.Is(err, ErrTooManyCodes) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	guess := wrong(b.codeNow(t, signIn))
	for {
		var wrong *WrongCodeError
		_, err := b.VerifyCode(t.Context(), signIn, guess)
		if errors.Is(err, ErrCodeSpent) {
			return guesses
		}
		if !errors.As(err, &wrong) {
			t.Fatalf("a wrong code: %v", err)
		}
		guesses++
	}
}

// TestGuessesAreBounded guesses at codes of one address for a year, from as many networks as help, and stops where it is better to
// wait until failed attempts are forgotten. The threat model has the figures.
func TestGuessesAreBounded(t *testing.T) {
	t.Parallel()
	// With a limit of emails and without one, with an account and without one.
	for codesPerEmail, email := range map[int]string{5: "victim@example.com", 0: "nobody@example.com"} {
		t.Run(fmt.Sprint(codesPerEmail, email), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, Settings{CodesPerEmail: codesPerEmail})
			b.user(t, "victim@example.com")
			const day = 24 * time.Hour
			networks := 0
			burst := func() (sum int) { // all that can be guessed now: the first network asks for all that it may have
				for inVain := 0; inVain < 2; {
					got := b.guess(t, email, fmt.Sprintf("2001:db8:%x::1", networks))
					if sum += got; got == 0 {
						networks++
						inVain++
					} else {
						inVain = 0
					}
				}
				return sum
			}
			sum, after := 0, map[string]int{}
			for now := time.Duration(0); now < 365*day; now += 30 * day { // until the attempts are forgotten
				b.db.Clock.Set(now)
				if err := b.Sweep(t.Context(), b.db.Now()); err != nil {
					t.Fatal(err)
				}
				before := sum
				for tried := -1; sum < before+100 && tried != 0; { // as long as a code works
					if tried = burst(); tried > 0 {
						sum += tried
						now += time.Hour
						b.db.Clock.Set(now)
					}
					if _, known := after["at once"]; !known && codesPerEmail > 0 {
						after["at once"] = sum
					}
				}
				if _, known := after["in a day"]; !known {
					after["in a day"], after["in 30 days"] = sum, sum
				}
			}
			after["in a year"] = sum
			want := threatModel(t)
			if codesPerEmail == 0 {
				delete(want, "at once") // all of the day's
			}
			if diff := cmp.Diff(want, after); diff != "" {
				t.Errorf("guesses (-threat model +got):\n%s", diff)
			}
		})
	}
}

// threatModel are the figures of the table of guesses.
func threatModel(t *testing.T) map[string]int {
	t.Helper()
	document, err := os.ReadFile("../../../docs/threat-model.md")
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
		began := b.db.Now()
		next := func(network string) time.Duration {
			t.Helper()
			at, _, err := b.NextCode(t.Context(), CodeRequest{Email: email, Network: netip.MustParseAddr(network)})
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
			if err := b.send(uuid.New(), email); err != nil {
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
		b.db.Clock.Advance(51 * time.Minute)
		send(email)
		send("other-" + email)
		got = append(got, next("192.0.2.1"), next("192.0.2.2")) // the limit of one network; the other has its first email of the day
		b.db.Clock.Advance(61 * time.Minute)
		send(email)
		got = append(got, next("192.0.2.1")) // of the day's, for one network
		const m, h = time.Minute, time.Hour
		if diff := cmp.Diff([]time.Duration{0, 60 * m, 70 * m, 0, 24 * h}, got); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", email, diff)
		}
		b.db.Exec(t, "delete from sign_in_limits")
	}
}

// TestNobodyTakesTheLastEmail: of the emails for an address, strangers leave one for whom they do not know.
func TestNobodyTakesTheLastEmail(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{CodesPerEmail: 5, CodesPerNetwork: 30})
	user := b.user(t, "ada@example.com")
	known := b.signInWith(t, user)
	b.db.Clock.Advance(25 * time.Hour)
	ask := func(network string, keys ...BrowserKey) bool {
		t.Helper()
		err := b.SendCode(t.Context(), CodeRequest{SignIn: uuid.New(), Email: user.Email, Network: netip.MustParseAddr(network), Known: keys})
		if err != nil && !errors.Is(err, ErrTooManyCodes) {
			t.Fatal(err)
		}
		return err == nil
	}
	for range 8 { // hours
		for ask("192.0.2.66") { // a stranger
		}
		b.db.Clock.Advance(time.Hour)
	}
	for ask("192.0.2.67") { // another one
	}
	if !ask("192.0.2.1") {
		t.Error("strangers took the owner's email")
	}
	if ask("192.0.2.1") {
		t.Error("a second one, for a network that has asked today")
	}
	for n := range 10 {
		ask(fmt.Sprintf("198.51.100.%d", n))
	}
	if ask("192.0.2.2") {
		t.Error("emails are not bounded")
	}
	if !ask("192.0.2.66", known...) {
		t.Error("a known browser is locked out")
	}
	for n := range 40 { // the network of an office
		_ = b.SendCode(t.Context(), CodeRequest{
			SignIn: uuid.New(), Email: fmt.Sprintf("n%d@example.com", n), Network: netip.MustParseAddr("203.0.113.1"),
		})
	}
	if err := b.send(uuid.New(), "bob@example.com"); err != nil {
		t.Errorf("another network: %v", err)
	}
	if ask("203.0.113.1") || !ask("203.0.113.1", known...) {
		t.Error("in a network that has used up its emails, a known browser alone gets in")
	}
}

// TestNetworksThatLockOut: as many networks as the threat model names, each with one request, keep the emails for an address from a
// browser that is not known. One network fewer does not.
func TestNetworksThatLockOut(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		networks int
		pause    time.Duration // between two of them
	}{
		"an hour": {10, 0},
		"a day":   {40, 30 * time.Minute},
	} {
		for _, strangers := range []int{test.networks - 1, test.networks} {
			b := newBench(t, Settings{CodesPerEmail: 5, CodesPerNetwork: 30})
			ask := func(network string) error {
				return b.SendCode(t.Context(), CodeRequest{SignIn: uuid.New(), Email: "ada@example.com", Network: netip.MustParseAddr(network)})
			}
			for n := range strangers {
				if err := ask(fmt.Sprintf("198.51.100.%d", n)); err != nil {
					t.Fatalf("%s: stranger %d: %v", name, n, err)
				}
				b.db.Clock.Advance(test.pause)
			}
			if err := ask("192.0.2.1"); (err != nil) != (strangers == test.networks) {
				t.Errorf("%s: after %d networks the owner gets %v", name, strangers, err)
			}
		}
	}
}

// TestEmailsAreBounded: emails for an address, in an hour and in a day. The threat model has the figures.
func TestEmailsAreBounded(t *testing.T) {
	t.Parallel()
	for who, networks := range map[string]int{"from one network": 1, "from all networks, at most": 12} { // new ones each hour
		b := newBench(t, Settings{CodesPerEmail: 5, CodesPerNetwork: 30})
		inHour, emails := 0, 0
		for hour := range 24 {
			before := emails
			for n := range networks {
				for {
					from := fmt.Sprintf("2001:db8:%x::1", min(n, 1)*hour*100+n)
					err := b.SendCode(t.Context(), CodeRequest{SignIn: uuid.New(), Email: "ada@example.com", Network: netip.MustParseAddr(from)})
					if errors.Is(err, ErrTooManyCodes) {
						break
					}
					if err != nil {
						t.Fatal(err)
					}
					emails++
				}
			}
			inHour = max(inHour, emails-before)
			b.db.Clock.Advance(time.Hour)
		}
		document, err := os.ReadFile("../../../docs/threat-model.md")
		if err != nil {
			t.Fatal(err)
		}
		var hourly, daily int
		_, row, _ := strings.Cut(string(document), "\n| "+who+" | ")
		if _, err := fmt.Sscanf(row, "%d | %d |", &hourly, &daily); err != nil {
			t.Errorf("the threat model does not have what comes %s: %v", who, err)
		}
		if inHour > hourly || emails > daily || networks == 1 && (inHour != hourly || emails != daily) {
			t.Errorf("%d emails in an hour and %d in a day come %s, want %d and %d", inHour, emails, who, hourly, daily)
		}
	}
}

// TestARightCodeBeginsTheBudgetAnew: failed attempts are counted since the last success.
func TestARightCodeBeginsTheBudgetAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	b.user(t, "ada@example.com")
	for range 19 {
		b.guess(t, "ada@example.com", "192.0.2.9")
		b.post.Next(t)
	}
	signIn := uuid.New()
	if _, err := b.VerifyCode(t.Context(), signIn, b.code(t, signIn, "ADA@example.com")); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if b.guess(t, "ada@example.com", "192.0.2.9") != 5 {
			t.Fatalf("no code after %d wrong ones since the last success", 5*i)
		}
	}
	if b.guess(t, "ada@example.com", "192.0.2.9") != 0 {
		t.Error("a code that works, after 100 wrong ones")
	}
}

// TestFaultSpendsNoAttempt: a right code whose attempt the database could not store works afterwards, however often that happened.
func TestFaultSpendsNoAttempt(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string][2]string{
		"count":  {"alter table sign_in_limits rename to away", "alter table away rename to sign_in_limits"},
		"accept": {"alter table sign_in_limits add constraint fault check (failed > 0) not valid", "alter table sign_in_limits drop constraint fault"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, Settings{})
			b.user(t, "ada@example.com")
			signIn := uuid.New()
			code := b.code(t, signIn, "ada@example.com")
			b.db.Define(t, fault[0])
			for range Attempts + 1 {
				if _, err := b.VerifyCode(t.Context(), signIn, code); err == nil || errors.Is(err, ErrCodeSpent) {
					t.Fatalf("while the database fails: %v", err)
				}
			}
			b.db.Define(t, fault[1])
			if state, err := b.GetSignIn(t.Context(), signIn); err != nil || state.AttemptsLeft != Attempts {
				t.Errorf("%d attempts are left: %v", state.AttemptsLeft, err)
			}
			if failed := pgtest.Value[int](t, b.db, "select max(failed) from sign_in_limits"); failed != 0 {
				t.Errorf("%d failed attempts are counted", failed)
			}
			if _, err := b.VerifyCode(t.Context(), signIn, code); err != nil {
				t.Errorf("after the fault: %v", err)
			}
		})
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
	if err := b.RememberBrowser(t.Context(), signIn, verified.Browser, keys, firefox, "en"); err != nil {
		t.Fatal(err)
	}
	return []BrowserKey{verified.Browser}
}

// TestAKnownBrowserHasItsOwnBudget: while strangers guess, the owner gets in; and what is guessed in a browser of the
// owner's is bounded as well.
func TestAKnownBrowserHasItsOwnBudget(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	ada, bob := b.user(t, "ada@example.com"), b.user(t, "bob@example.com")
	first := b.signInWith(t, ada)
	b.db.Clock.Advance(179 * 24 * time.Hour)
	for b.guess(t, ada.Email, "192.0.2.9") > 0 {
		b.post.Next(t)
	}
	if got := b.post.Next(t); got.Code != "" {
		t.Error("an email has a code that does not work")
	}
	owners := b.signInWith(t, ada, first...)
	if b.guess(t, ada.Email, "192.0.2.9") != 0 {
		t.Error("the owner's sign-in gave strangers another code")
	}
	b.post.Next(t)
	for name, keys := range map[string][]BrowserKey{
		"the key before":        first,
		"a key of another user": b.signInWith(t, bob),
		"another secret":        {{UserID: ada.ID, Secret: [32]byte{1}}},
		"the user's id alone":   {{UserID: ada.ID}},
	} {
		if b.guess(t, ada.Email, "192.0.2.9", keys...) != 0 {
			t.Errorf("%s is a budget", name)
		}
		b.post.Next(t)
	}
	sum := 0
	for n := -1; n != 0; sum += max(n, 0) {
		n = b.guess(t, ada.Email, "192.0.2.9", owners...)
		b.post.Next(t)
	}
	if sum != 100 {
		t.Errorf("%d guesses in a known browser, want 100", sum)
	}
	b.db.Clock.Advance(180*24*time.Hour + time.Second)
	if err := b.Sweep(t.Context(), b.db.Now()); err != nil {
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
	known := func(keys ...BrowserKey) []Browser {
		t.Helper()
		browsers, err := b.Browsers(t.Context(), ada.ID, keys...)
		if err != nil {
			t.Fatal(err)
		}
		return browsers
	}
	oldest := b.signInWith(t, ada)
	b.db.Clock.Advance(time.Minute)
	signIn := uuid.New()
	b.code(t, signIn, ada.Email)
	var group sync.WaitGroup
	for range 12 {
		group.Go(func() {
			if err := b.RememberBrowser(context.Background(), signIn, newBrowserKey(ada.ID), nil, "made up/1.0 (\x00<b>)", "en"); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := known(oldest...); len(got) != 10 || got[9].This || got[0].Name != "" {
		t.Errorf("%d browsers are known, want 10; the last is the oldest: %t", len(got), got[9].This)
	}
	b.db.Clock.Advance(time.Minute)
	latest := b.signInWith(t, ada)
	first := known(latest...)[0]
	if !first.This || known(oldest...)[0].This || first.Name != "Firefox (Linux)" || first.FirstAt != nil {
		t.Errorf("the latest is %+v", first)
	}
	b.db.Clock.Advance(time.Hour)
	latest = b.signInWith(t, ada, latest...)
	if got := known(latest...); len(got) != 10 || !got[0].This || !got[0].SignedInAt.After(first.SignedInAt) || got[0].FirstAt == nil || !got[0].FirstAt.Equal(first.SignedInAt) {
		t.Errorf("after another sign-in there: %d browsers, the latest is %+v", len(got), got[0])
	}

	here, there := b.session(t, ada.Email), b.session(t, ada.Email)
	if err := b.ForgetBrowser(t.Context(), here, known()[0].ID); err != nil {
		t.Fatal(err)
	}
	if got := known(latest...); len(got) != 9 || got[0].This {
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
	if err := b.RememberBrowser(t.Context(), signIn, newBrowserKey(ada.ID), nil, "", "en"); !errors.Is(err, ErrNoSignIn) {
		t.Errorf("a browser that signed in by the former address: %v", err)
	}
	if got := known(); len(got) != 0 {
		t.Errorf("%d browsers are known by a new address", len(got))
	}
	if err := b.RememberBrowser(t.Context(), signIn, newBrowserKey(uuid.New()), nil, "", "en"); !errors.Is(err, ErrNoSignIn) {
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
		if got := BrowserName(agent); got != want {
			t.Errorf("%q is named %q, want %q", agent, got, want)
		}
	}
}
