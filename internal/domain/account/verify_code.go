package account

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	accountdb "connect-svc/gen/db/account"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/text"
)

// Errors of VerifyCode and VerifyLink, in addition to *WrongCodeError.
var (
	ErrNoSignIn      = errors.New("no code was requested, or it expired long ago")
	ErrMalformedCode = errors.New("not six digits")
	ErrOlderCode     = errors.New("the code is of an earlier email")
	ErrCodeExpired   = errors.New("the code is older than 10 minutes")
	ErrCodeSpent     = errors.New("the code has had its five attempts, or too many wrong ones were entered")
	ErrWrongLink     = errors.New("the link is not that of the newest email")
	ErrCodeNotSent   = errors.New("the mail server could not be reached with the code")
)

// WrongCodeError rejects a wrong code.
type WrongCodeError struct {
	AttemptsLeft int // 0 to 4
}

func (e *WrongCodeError) Error() string {
	return fmt.Sprintf("wrong code, %d attempts left", e.AttemptsLeft)
}

// Verified is a sign-in whose user has proved access to the mailbox of an account's address.
type Verified struct {
	UserID uuid.UUID
	// Secret is for the browser that gave the proof. Only someone with the proof can obtain it. The same proof gives the same secret.
	Secret  [32]byte
	Browser BrowserKey // for RememberBrowser

	seed    []byte     // of the email
	session SessionKey // for StartSession
}

// VerifyCode returns the user of a code that was typed or pasted. It spends one of the five attempts, also if the code is right. A form
// that is submitted twice gets the same result twice, and the sign-in still serves its purpose once. Each attempt counts as failed
// before the code is compared, until one is right. After a hundred failed ones no code is compared. Errors: ErrMalformedCode and ErrOlderCode,
// which spend no attempt, *WrongCodeError, ErrCodeSpent, ErrCodeExpired, ErrCodeNotSent, ErrNoSignIn.
func (a *Accounts) VerifyCode(ctx context.Context, signIn uuid.UUID, code string) (verified Verified, err error) {
	defer func() { a.count("accepted", err) }()
	code = digits(code)
	if len(code) != codeDigits || strings.Trim(code, "0123456789") != "" {
		return Verified{}, ErrMalformedCode
	}
	if err := a.checkOlder(ctx, signIn, code); err != nil {
		return Verified{}, err
	}
	attempt, err := a.takeAttempt(ctx, signIn)
	if err != nil {
		return Verified{}, err
	}
	right := subtle.ConstantTimeCompare([]byte(a.codeOf(signIn, attempt.Seed)), []byte(code)) == 1
	if !right || attempt.UserID == nil { // a guess may match the code of an address without an account
		a.log(logEntry{
			key: a.logKey(text.AddressKey(attempt.Email)), signIn: signIn, event: CodeWrong, detail: strconv.Itoa(int(attempt.Attempts)),
			distinct: slices.Concat(attempt.Seed, []byte{byte(attempt.Attempts)}), //nolint:gosec // at most Attempts
		})
		return Verified{}, &WrongCodeError{AttemptsLeft: attemptsLeft(int(attempt.Attempts), 0)}
	}
	return a.accept(ctx, signIn, *attempt.UserID, attempt.Seed, attempt.Budget, code, attempt.Email)
}

// checkOlder compares a code with those that the sign-in's code has replaced. Somebody who has one of them has it from an email, and learns only
// that it is not the newest: all other codes spend an attempt. It is the same with and without an account. Error: ErrOlderCode.
func (a *Accounts) checkOlder(ctx context.Context, signIn uuid.UUID, code string) error {
	found, err := a.queries.GetSeeds(ctx, signIn)
	if err != nil {
		return postgres.WrapNoRows("account: get earlier codes", err, ErrNoSignIn)
	}
	is := func(seed []byte) int { return subtle.ConstantTimeCompare([]byte(a.codeOf(signIn, seed)), []byte(code)) }
	older := 0
	for _, seed := range found.OlderSeeds {
		older |= is(seed)
	}
	if older == 1 && is(found.Seed) == 0 { // once in a million the newest is the same
		return ErrOlderCode
	}
	return nil
}

// accept resets the failed attempts. proof is the code or the link that the user entered, email the address as it was typed.
func (a *Accounts) accept(ctx context.Context, signIn, user uuid.UUID, seed, budget []byte, proof, email string) (Verified, error) {
	if err := a.queries.ResetAttempts(ctx, budget); err != nil {
		return Verified{}, fmt.Errorf("account: reset attempts: %w", err)
	}
	a.log(logEntry{key: a.logKey(text.AddressKey(email)), signIn: signIn, event: SignedIn, distinct: seed})
	return Verified{
		UserID: user, Secret: a.keys.PRF("secret of a sign-in", signIn[:], []byte(proof)),
		Browser: BrowserKey{user, a.keys.PRF("known browser", signIn[:], seed)},
		seed:    seed, session: SessionKey{user, a.keys.PRF("account session", signIn[:], seed)},
	}, nil
}

// takeAttempt spends an attempt of the code, and then counts it as failed. These are two acts: an attempt that was spent but could not be
// counted is never compared. Errors: ErrNoSignIn, ErrCodeExpired, ErrCodeSpent.
func (a *Accounts) takeAttempt(ctx context.Context, signIn uuid.UUID) (accountdb.TakeAttemptRow, error) {
	taken, err := a.queries.TakeAttempt(ctx, accountdb.TakeAttemptParams{SignInID: signIn, Most: Attempts})
	if errors.Is(err, pgx.ErrNoRows) {
		return taken, a.whyNoAttempt(ctx, signIn)
	}
	if err != nil {
		return taken, fmt.Errorf("account: take an attempt: %w", err)
	}
	counted, err := a.queries.CountAttempt(ctx, accountdb.CountAttemptParams{Key: taken.Budget, Most: maxFailed})
	if err == nil && counted == 0 {
		a.log(logEntry{key: a.logKey(text.AddressKey(taken.Email)), signIn: signIn, event: CodeSpent})
		return taken, ErrCodeSpent
	}
	return taken, postgres.Wrap("account: count an attempt", err)
}

// whyNoAttempt explains why there was no attempt to take.
func (a *Accounts) whyNoAttempt(ctx context.Context, signIn uuid.UUID) error {
	found, err := a.GetSignIn(ctx, signIn)
	if err != nil {
		return err
	}
	entry := logEntry{key: a.logKey(text.AddressKey(found.Email)), signIn: signIn}
	switch {
	case found.Mail == MailFailed:
		return ErrCodeNotSent
	case found.Expired:
		entry.event, err = CodeExpired, ErrCodeExpired
	default:
		entry.event, err = CodeSpent, ErrCodeSpent
	}
	a.log(entry)
	return err
}
