package account

import (
	"context"
	"crypto/subtle"
	"encoding/base64"

	"github.com/google/uuid"

	"connect-svc/internal/postgres"
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
	_, _, _, err := a.link(ctx, signIn, link)
	return err
}

// VerifyLink returns the user of a link. The number of wrong codes does not matter. Errors: those of CheckLink.
func (a *Accounts) VerifyLink(ctx context.Context, signIn uuid.UUID, link string) (verified Verified, err error) {
	user, seed, budget, err := a.link(ctx, signIn, link)
	if err != nil {
		return Verified{}, err
	}
	return a.accept(ctx, signIn, user, seed, budget, link)
}

func (a *Accounts) link(ctx context.Context, signIn uuid.UUID, link string) (user uuid.UUID, seed, budget []byte, err error) {
	found, err := a.queries.GetLink(ctx, signIn)
	if err != nil {
		return user, nil, nil, postgres.WrapNoRows("account: get the link of a sign-in", err, ErrNoSignIn)
	}
	right := subtle.ConstantTimeCompare([]byte(a.linkOf(signIn, found.Seed)), []byte(link)) == 1
	switch {
	case !right || found.UserID == nil:
		return user, nil, nil, ErrWrongLink
	case Mail(found.Mail) == MailFailed:
		return user, nil, nil, ErrCodeNotSent
	case found.Expired:
		return user, nil, nil, ErrCodeExpired
	}
	return *found.UserID, found.Seed, found.Budget, nil
}
