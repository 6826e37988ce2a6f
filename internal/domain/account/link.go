package account

import (
	"context"
	"crypto/subtle"
	"encoding/base64"

	"github.com/google/uuid"

	accountdb "connect-svc/gen/db/account"
	"connect-svc/internal/foundation/postgres"
)

// linkOf returns the last part of an email's link, 43 characters. Like the code it is derived from the sign-in and its seed with a key.
// So it is not stored, and works only for this sign-in, in the browser that has it. Its 256 bits cannot be guessed.
func (a *Accounts) linkOf(signIn uuid.UUID, seed []byte) string {
	output := a.keys.PRF("sign-in link", signIn[:], seed)
	return base64.RawURLEncoding.EncodeToString(output[:])
}

// CheckLink reports whether a link would sign in. It changes nothing, because programs that scan emails open links, too. Errors:
// ErrWrongLink, ErrCodeExpired, ErrCodeNotSent, ErrNoSignIn.
func (a *Accounts) CheckLink(ctx context.Context, signIn uuid.UUID, link string) error {
	_, err := a.link(ctx, signIn, link)
	return err
}

// VerifyLink returns the user of a link. The number of wrong codes does not matter. Errors: those of CheckLink.
func (a *Accounts) VerifyLink(ctx context.Context, signIn uuid.UUID, link string) (verified Verified, err error) {
	found, err := a.link(ctx, signIn, link)
	if err != nil {
		return Verified{}, err
	}
	return a.accept(ctx, signIn, *found.UserID, found.Seed, found.Budget, link, found.Email)
}

// link returns the sign-in of a link that would sign in.
func (a *Accounts) link(ctx context.Context, signIn uuid.UUID, link string) (found accountdb.GetLinkRow, err error) {
	found, err = a.queries.GetLink(ctx, signIn)
	if err != nil {
		return found, postgres.WrapNoRows("account: get the link of a sign-in", err, ErrNoSignIn)
	}
	right := subtle.ConstantTimeCompare([]byte(a.linkOf(signIn, found.Seed)), []byte(link)) == 1
	switch {
	case !right || found.UserID == nil:
		return found, ErrWrongLink
	case Mail(found.Mail) == MailFailed:
		return found, ErrCodeNotSent
	case found.Expired:
		return found, ErrCodeExpired
	}
	return found, nil
}
