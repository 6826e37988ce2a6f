package account

import (
	"context"
	"crypto/subtle"
	"encoding/base64"

	"github.com/google/uuid"

	"connect-svc/internal/postgres"
)

// linkOf is what the link of an email ends with, 43 characters: like the code it is made of the sign-in and the seed of the email
// with a key, so that it is not stored, and it works for this sign-in alone, which is that of one browser. Nobody guesses 256 bits.
func (a *Accounts) linkOf(signIn uuid.UUID, seed []byte) string {
	output := a.keys.PRF("sign-in link", signIn[:], seed)
	return base64.RawURLEncoding.EncodeToString(output[:])
}

// CheckLink says whether a link would sign in, and changes nothing: programs that look at emails open links, too. Errors:
// ErrWrongLink, ErrCodeExpired, ErrCodeNotSent, ErrNoSignIn.
func (a *Accounts) CheckLink(ctx context.Context, signIn uuid.UUID, link string) error {
	_, _, _, err := a.link(ctx, signIn, link)
	return err
}

// VerifyLink returns the user whose link it is. It works however many wrong codes were entered. Errors: those of CheckLink.
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
