package account

import (
	"context"
	"errors"
	"sync"
	"time"

	"connect-svc/internal/foundation/intake"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/text"
)

// utf8Answer is the last answer of the mail server to whether it offers SMTPUTF8 (RFC 6531). It counts for a minute, so that the rows of a file
// do not each ask, and a mail server that begins to offer it is believed soon.
type utf8Answer struct {
	mu      sync.Mutex
	until   time.Time
	offered bool
	err     error
}

const utf8AnswerLifetime = time.Minute

// offersUTF8 returns what [Mailer.Check] does, or has a minute ago at most. It asks for as long as limit.
func (m *Mailer) offersUTF8(ctx context.Context, limit time.Duration) (bool, error) {
	answer := &m.utf8
	answer.mu.Lock()
	defer answer.mu.Unlock()
	if time.Now().Before(answer.until) {
		return answer.offered, answer.err
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	offered, err := m.Check(limited)
	if ctx.Err() == nil { // otherwise it had less time
		answer.offered, answer.err, answer.until = offered, err, time.Now().Add(utf8AnswerLifetime)
	}
	return offered, err
}

// Why an address is refused whose local part is not ASCII.
var (
	errNoUTF8      = &refusal.FieldError{Field: "email", Problem: "must be ASCII before the @, because the mail server does not offer SMTPUTF8"}
	errUTF8Unknown = &refusal.FieldError{Field: "email",
		Problem: "must be ASCII before the @ unless the mail server offers SMTPUTF8, and it could not be asked"}
	errUTF8Unasked = &refusal.FieldError{Field: "email",
		Problem: "must be ASCII before the @ unless the mail server offers SMTPUTF8; it is asked if CONNECT_SMTP_URL names it"}
)

// unsendable says why the mail server would not take a valid address; nil if it would.
func (a *Accounts) unsendable(ctx context.Context, email string) *refusal.FieldError {
	if !text.NeedsSMTPUTF8(email) || !text.IsAddress(email) {
		return nil
	}
	if a.mailer == nil { // at the command line
		return errUTF8Unasked
	}
	switch offered, err := a.mailer.offersUTF8(ctx, a.settings.Limits.Probe); {
	case err != nil:
		return errUTF8Unknown
	case !offered:
		return errNoUTF8
	}
	return nil
}

// CheckSendable refuses a valid address that the mail server would not take. Error: *refusal.FieldError.
func (a *Accounts) CheckSendable(ctx context.Context, email string) error {
	if wrong := a.unsendable(ctx, email); wrong != nil {
		return wrong
	}
	return nil
}

// sendable adds to what is wrong with the row of a line that the mail server would not take its address.
func (a *Accounts) sendable(ctx context.Context, email string, line int, wrong []*intake.RowError) []*intake.RowError {
	if no := a.unsendable(ctx, email); no != nil {
		wrong = append(wrong, &intake.RowError{Line: line, Column: no.Field, Err: errors.New(no.Problem)})
	}
	return wrong
}
