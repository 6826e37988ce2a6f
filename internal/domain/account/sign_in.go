package account

import (
	"bytes"
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	accountdb "connect-svc/gen/db/account"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/text"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
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
	return a.keys.Seal(credential.AccountSignIn, id)
}

// OpenSignIn opens a sealed id. That it opens proves that this browser began the sign-in. The sign-in may have ended.
func (a *Accounts) OpenSignIn(sealed string) (id uuid.UUID, ok bool) {
	id, err := credential.OpenAs[uuid.UUID](a.keys, credential.AccountSignIn, sealed)
	return id, err == nil
}

// GetSignIn returns the state of a sign-in. Error: ErrNoSignIn.
func (a *Accounts) GetSignIn(ctx context.Context, id uuid.UUID) (signIn SignIn, err error) {
	row, err := a.queries.GetSignIn(ctx, id)
	if err != nil {
		return SignIn{}, postgres.WrapNoRows("account: get sign-in", err, ErrNoSignIn)
	}
	signIn = SignIn{Email: row.Email, Expired: row.Expired, Left: time.Duration(row.SecondsLeft * float64(time.Second)), Mail: Mail(row.Mail)}
	failed := 0
	if signIn.Mail == MailSent { // earlier there is nothing to enter
		if failed, err = a.failed(ctx, row.Budget); err != nil {
			return SignIn{}, err
		}
	}
	signIn.AttemptsLeft, signIn.NoCodes = attemptsLeft(int(row.Attempts), failed), !codesWork(failed)
	return signIn, nil
}

// EndSignIn ends a sign-in: neither its code nor its link work any more. Without one it changes nothing.
func (a *Accounts) EndSignIn(ctx context.Context, id uuid.UUID) error {
	return postgres.Wrap("account: end sign-in", a.queries.DeleteSignIn(ctx, id))
}

// failed returns how many attempts at the codes of a budget have failed.
func (a *Accounts) failed(ctx context.Context, budget []byte) (int, error) {
	failed, err := a.queries.CountFailed(ctx, budget)
	return int(failed), postgres.WrapNoRows("account: count failed attempts", err, nil)
}

const codeDigits = 6

// digits returns the digits of a code that was typed or pasted in any script. It drops spaces, hyphens and invisible characters, and what
// surrounds the code, such as quotes and words without digits. Everything else stays, and makes the code malformed.
func digits(code string) string {
	code = strings.TrimFunc(code, func(c rune) bool { return !unicode.Is(unicode.Nd, c) })
	return strings.Map(func(c rune) rune {
		switch {
		case unicode.Is(unicode.Nd, c):
			return '0' + digitValue(c)
		case unicode.In(c, unicode.White_Space, unicode.Pd, unicode.Cc, unicode.Cf):
			return -1
		}
		return c
	}, code)
}

// digitValue returns 0 to 9. The digits of a script follow each other from zero on, and may follow those of another script.
func digitValue(c rune) (value rune) {
	for unicode.Is(unicode.Nd, c-value-1) {
		value++
	}
	return value % 10
}

// codeOf derives the code of a sign-in from its seed. Every server with the keys can derive it and write the email. The database alone
// reveals nothing about it. The remainder of 2^64 values favors no code noticeably.
func (a *Accounts) codeOf(signIn uuid.UUID, seed []byte) string {
	output := a.keys.PRF("sign-in code", signIn[:], seed)
	return fmt.Sprintf("%0*d", codeDigits, binary.BigEndian.Uint64(output[:8])%1_000_000)
}

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

// VerifyCode returns the user of a code that was typed or pasted. A wrong code spends one of the five attempts. The right one spends none, so
// that a form that is submitted twice gets the same result twice, also at the last attempt. The sign-in still serves its purpose once. Each
// attempt counts as failed before the code is compared, until one is right. After a hundred failed ones no code is compared. If the database
// fails, no attempt is spent. Errors: ErrMalformedCode and ErrOlderCode, which spend no attempt, *WrongCodeError, ErrCodeSpent, ErrCodeExpired,
// ErrCodeNotSent, ErrNoSignIn.
func (a *Accounts) VerifyCode(ctx context.Context, signIn uuid.UUID, code string) (verified Verified, err error) {
	defer func() { a.count("accepted", err) }()
	code = digits(code)
	if len(code) != codeDigits || strings.Trim(code, "0123456789") != "" {
		return Verified{}, ErrMalformedCode
	}
	var attempt accountdb.TakeAttemptRow
	right := false
	for err = errOvertaken; ctx.Err() == nil && errors.Is(err, errOvertaken); { // by a newer code of another budget
		budget, failure := a.checkOlder(ctx, signIn, code)
		if failure != nil {
			return Verified{}, failure
		}
		attempt, right, err = a.takeAttempt(ctx, signIn, budget, code)
	}
	if err != nil {
		return Verified{}, err
	}
	if !right {
		a.log(logEntry{
			key: a.logKey(text.AddressKey(attempt.Email)), signIn: signIn, event: codeWrong, detail: strconv.Itoa(int(attempt.Attempts)),
			distinct: slices.Concat(attempt.Seed, []byte{byte(attempt.Attempts)}), //nolint:gosec // at most Attempts
		})
		return Verified{}, &WrongCodeError{AttemptsLeft: attemptsLeft(int(attempt.Attempts), 0)}
	}
	return a.accept(signIn, *attempt.UserID, attempt.Seed, code, attempt.Email), nil
}

// checkOlder compares a code with those that the sign-in's code has replaced. Somebody who has one of them has it from an email, and learns only
// that it is not the newest: all other codes spend an attempt. It is the same with and without an account. It returns the budget of the newest code.
// Error: ErrOlderCode.
func (a *Accounts) checkOlder(ctx context.Context, signIn uuid.UUID, code string) (budget []byte, err error) {
	seeds, err := a.queries.GetSeeds(ctx, signIn)
	if err != nil {
		return nil, postgres.WrapNoRows("account: get earlier codes", err, ErrNoSignIn)
	}
	matches := func(seed []byte) int { return subtle.ConstantTimeCompare([]byte(a.codeOf(signIn, seed)), []byte(code)) }
	older := 0
	for _, seed := range seeds.OlderSeeds {
		older |= matches(seed)
	}
	if older == 1 && matches(seeds.Seed) == 0 { // once in a million the newest is the same
		return nil, ErrOlderCode
	}
	return seeds.Budget, nil
}

// accept returns the sign-in of a user. proof is the code or the link that the user entered, email the address as it was typed.
func (a *Accounts) accept(signIn, user uuid.UUID, seed []byte, proof, email string) Verified {
	a.log(logEntry{key: a.logKey(text.AddressKey(email)), signIn: signIn, event: signedIn, distinct: seed})
	return Verified{
		UserID: user, Secret: a.keys.PRF("secret of a sign-in", signIn[:], []byte(proof)),
		Browser: BrowserKey{user, a.keys.PRF("known browser", signIn[:], seed)},
		seed:    seed, session: SessionKey{user, a.keys.PRF("account session", signIn[:], seed)},
	}
}

// takeAttempt counts an attempt as failed and spends it, or, if the code is right, makes the count 0 and spends none. It is one transaction,
// and nobody learns what was right before its end. It locks the rows in the order of storeCode. Errors: ErrNoSignIn, ErrCodeNotSent,
// ErrCodeExpired, ErrCodeSpent, errOvertaken if the sign-in has another budget.
func (a *Accounts) takeAttempt(ctx context.Context, signIn uuid.UUID, budget []byte, code string) (taken accountdb.TakeAttemptRow, right bool, err error) {
	counted := int64(0)
	err = postgres.InTx(ctx, a.pool, func(tx pgx.Tx) (err error) {
		queries := a.queries.WithTx(tx)
		if counted, err = queries.CountAttempt(ctx, accountdb.CountAttemptParams{Key: budget, Most: maxFailed}); err != nil {
			return err
		}
		taken, err = queries.TakeAttempt(ctx, accountdb.TakeAttemptParams{SignInID: signIn, Most: Attempts})
		if err == nil && !bytes.Equal(taken.Budget, budget) {
			err = errOvertaken
		}
		if err != nil || counted == 0 {
			return err
		}
		right = subtle.ConstantTimeCompare([]byte(a.codeOf(signIn, taken.Seed)), []byte(code)) == 1 &&
			taken.UserID != nil // a guess may match the code of an address without an account
		if right {
			err = cmp.Or(queries.ResetAttempts(ctx, budget), queries.ReturnAttempt(ctx, signIn))
		}
		return err
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		err = a.whyNoAttempt(ctx, signIn)
	case err == nil && counted == 0:
		a.log(logEntry{key: a.logKey(text.AddressKey(taken.Email)), signIn: signIn, event: codeSpent})
		err = ErrCodeSpent
	}
	return taken, right, postgres.Wrap("account: take an attempt", err)
}

// whyNoAttempt explains why there was no attempt to take.
func (a *Accounts) whyNoAttempt(ctx context.Context, signIn uuid.UUID) error {
	row, err := a.GetSignIn(ctx, signIn)
	if err != nil {
		return err
	}
	entry := logEntry{key: a.logKey(text.AddressKey(row.Email)), signIn: signIn}
	switch {
	case row.Mail == MailFailed:
		return ErrCodeNotSent
	case row.Expired:
		entry.event, err = codeExpired, ErrCodeExpired
	default:
		entry.event, err = codeSpent, ErrCodeSpent
	}
	a.log(entry)
	return err
}

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
	row, err := a.link(ctx, signIn, link)
	if err != nil {
		return Verified{}, err
	}
	if err := a.queries.ResetAttempts(ctx, row.Budget); err != nil {
		return Verified{}, fmt.Errorf("account: reset attempts: %w", err)
	}
	return a.accept(signIn, *row.UserID, row.Seed, link, row.Email), nil
}

// link returns the sign-in of a link that would sign in.
func (a *Accounts) link(ctx context.Context, signIn uuid.UUID, link string) (row accountdb.GetLinkRow, err error) {
	row, err = a.queries.GetLink(ctx, signIn)
	if err != nil {
		return row, postgres.WrapNoRows("account: get the link of a sign-in", err, ErrNoSignIn)
	}
	right := subtle.ConstantTimeCompare([]byte(a.linkOf(signIn, row.Seed)), []byte(link)) == 1
	switch {
	case !right || row.UserID == nil:
		return row, ErrWrongLink
	case Mail(row.Mail) == MailFailed:
		return row, ErrCodeNotSent
	case row.Expired:
		return row, ErrCodeExpired
	}
	return row, nil
}
