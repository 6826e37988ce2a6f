package account

import (
	"context"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
)

// SignIn is the state of a pending sign-in.
type SignIn struct {
	Email        string // as typed
	AttemptsLeft int    // 0 to 5
	NoCodes      bool   // too many wrong codes were entered: only the link works
	Expired      bool
	Left         time.Duration // of its newest code
	Mail         Mail
}

// Mail is the state of the email with a code, as far as a page may tell. It does not depend on whether there is an account.
type Mail string

// The mail server was not reached yet, has taken the email, or could not be reached. In the last case the code stops working.
const (
	MailWaiting Mail = "waiting"
	MailSent    Mail = "sent"
	MailFailed  Mail = "failed"
)

// SealSignIn returns the id of a sign-in for the browser to store.
func (a *Accounts) SealSignIn(id uuid.UUID) (string, error) {
	return a.keys.Seal(credential.AccountSignIn, id[:])
}

// OpenSignIn opens a sealed id. That it opens proves that this browser began the sign-in. The sign-in may have ended.
func (a *Accounts) OpenSignIn(sealed string) (id uuid.UUID, ok bool) {
	text, err := a.keys.Open(credential.AccountSignIn, sealed)
	if err != nil {
		return id, false
	}
	id, err = uuid.FromBytes(text)
	return id, err == nil
}

// GetSignIn returns the state of a sign-in. Error: ErrNoSignIn.
func (a *Accounts) GetSignIn(ctx context.Context, id uuid.UUID) (found SignIn, err error) {
	row, err := a.queries.GetSignIn(ctx, id)
	if err != nil {
		return SignIn{}, postgres.WrapNoRows("account: get sign-in", err, ErrNoSignIn)
	}
	found = SignIn{Email: row.Email, Expired: row.Expired, Left: time.Duration(row.SecondsLeft * float64(time.Second)), Mail: Mail(row.Mail)}
	failed := 0
	if found.Mail == MailSent { // earlier there is nothing to enter
		if failed, err = a.failed(ctx, row.Budget); err != nil {
			return SignIn{}, err
		}
	}
	found.AttemptsLeft, found.NoCodes = attemptsLeft(int(row.Attempts), failed), !codesWork(failed)
	return found, nil
}

// failed returns how many attempts at the codes of a budget have failed.
func (a *Accounts) failed(ctx context.Context, budget []byte) (int, error) {
	failed, err := a.queries.CountFailed(ctx, budget)
	return int(failed), postgres.WrapNoRows("account: count failed attempts", err, nil)
}
