package account

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"connect-svc/internal/testing/pgtest"
)

// TestOlderCode: a code that a newer one has replaced says so and spends no attempt, with and without an account. All others do.
func TestOlderCode(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	user := b.user(t, "ada@example.com")
	for _, email := range []string{"ada@example.com", "stranger@example.org"} {
		signIn := uuid.New()
		var codes []string
		for range 6 {
			if err := b.send(signIn, email); err != nil {
				t.Fatal(err)
			}
			codes = append(codes, b.codeNow(t, signIn))
			b.settled(t)
		}
		for range 2 * Attempts {
			for _, older := range codes[1:5] {
				if _, err := b.VerifyCode(t.Context(), signIn, older); !errors.Is(err, ErrOlderCode) {
					t.Errorf("%s: %v, want ErrOlderCode", email, err)
				}
			}
		}
		if got, err := b.GetSignIn(t.Context(), signIn); err != nil || got.AttemptsLeft != Attempts {
			t.Errorf("%s: %d attempts are left, %v", email, got.AttemptsLeft, err)
		}
		if n := pgtest.Value[int64](t, b.db, "select coalesce(sum(failed), 0) from sign_in_limits"); n != 0 {
			t.Errorf("%s: %d failed attempts", email, n)
		}
		wrong := new(WrongCodeError)
		if _, err := b.VerifyCode(t.Context(), signIn, codes[0]); !errors.As(err, &wrong) || wrong.AttemptsLeft != Attempts-1 {
			t.Errorf("%s: the fifth before the newest: %v, want a wrong code", email, err)
		}
		// Of a newest code that happens to be an older one, too, nothing says that it is older.
		b.db.Exec(t, "update sign_ins set older_seeds = array[seed]")
		verified, err := b.VerifyCode(t.Context(), signIn, codes[5])
		if known := email == "ada@example.com"; known && (err != nil || verified.UserID != user.ID) || !known && !errors.As(err, &wrong) {
			t.Errorf("%s: the newest: %v", email, err)
		}
		b.db.Exec(t, "update sign_in_limits set failed = 0")
	}
}

// TestMeant: people paste addresses in quotes, and with names.
func TestMeant(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"ada@example.com": "ada@example.com", "“ada@example.com”": "ada@example.com", "<ada@example.com>": "ada@example.com",
		"Ada Lovelace <ada@example.com>": "ada@example.com", "„ada@example.com“": "ada@example.com", "«\u00a0ada@example.com\u00a0»": "ada@example.com",
		"\"ada@example.com\"": "ada@example.com", "'ada@example.com'": "ada@example.com", "o'ada@example.com": "o'ada@example.com", "'o@example.com": "'o@example.com", `"a d a"@example.com`: `"a d a"@example.com`,
		" ada@example.com. ": "ada@example.com", "ada@example.com,": "ada@example.com", "“ada@example.com”.": "ada@example.com", ".ada@example.com": ".ada@example.com",
		"": "", "<": "", "ada": "ada",
	} {
		if got := meant(typed); got != want {
			t.Errorf("%q means %q, want %q", typed, got, want)
		}
	}
}
