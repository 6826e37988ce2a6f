package account

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// TestEmailSaysHowLong: an email has the time of the account's time zone, and a code is valid no longer than what it is for.
func TestEmailSaysHowLong(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	b.user(t, "ada@example.com")
	b.db.Exec(t, "update users set timezone = 'Asia/Tokyo'")
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		until time.Duration
		says  string
	}{{6 * time.Minute, "6 minutes"}, {40 * time.Second, "1 minute"}, {time.Hour, "10 minutes"}} {
		signIn, before := uuid.New(), b.db.Now()
		request := CodeRequest{SignIn: signIn, Email: "ada@example.com", Until: before.Add(test.until), LinkPath: "/link"}
		if err := b.SendCode(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		email, after := b.post.Next(t), b.db.Now()
		says := func(at time.Time) bool {
			return strings.Contains(email.Text, fmt.Sprintf("It is valid for %s from %s.", test.says, at.In(tokyo).Format("15:04")))
		}
		if !says(before) && !says(after) || !strings.Contains(email.Text, "(Asia/Tokyo)") {
			t.Errorf("for %s: %s", test.until, email.Text)
		}
		b.db.Clock.Advance(min(test.until, CodeLifetime))
		if _, err := b.VerifyCode(t.Context(), signIn, email.Code); !errors.Is(err, ErrCodeExpired) {
			t.Errorf("after %s: %v, want ErrCodeExpired", test.until, err)
		}
	}
}
