package account

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/brand"
	"connect-svc/internal/credential"
	"connect-svc/internal/fairqueue"
	"connect-svc/internal/locale"
	"connect-svc/internal/mailbox"
	"connect-svc/internal/postgres"
	"connect-svc/internal/timelimit"
)

// Errors of sign-ins. WrongCodeError is the other one.
var (
	ErrInvalidEmail  = errors.New("not an e-mail address")
	ErrTooManyCodes  = errors.New("too many codes within an hour or a day")
	ErrNoSignIn      = errors.New("no code was requested, or it expired long ago")
	ErrMalformedCode = errors.New("not six digits")
	ErrCodeExpired   = errors.New("the code is older than 10 minutes")
	ErrCodeSpent     = errors.New("the code has had its five attempts, or too many wrong ones were entered")
	ErrWrongLink     = errors.New("the link is not that of the newest email")
	ErrCodeNotSent   = errors.New("the mail server could not be reached with the code")
)

// WrongCodeError rejects a code that is not the one that was sent.
type WrongCodeError struct {
	AttemptsLeft int // 0 to 4
}

func (e *WrongCodeError) Error() string {
	return fmt.Sprintf("wrong code, %d attempts left", e.AttemptsLeft)
}

// TooManyCodesError is ErrTooManyCodes, and when that ends.
type TooManyCodesError struct {
	Next time.Time     // when the limits let the next code be made
	Wait time.Duration // until then
}

func (e *TooManyCodesError) Error() string { return ErrTooManyCodes.Error() }

// Unwrap makes it ErrTooManyCodes.
func (e *TooManyCodesError) Unwrap() error { return ErrTooManyCodes }

// Settings of an Accounts.
type Settings struct {
	CodesPerEmail   int // emails sent to one address in an hour; a day may have four times as many; 0 is no limit
	CodesPerNetwork int // emails requested from one network in an hour; 0 is no limit
	Logger          *slog.Logger
	Limits          timelimit.Limits // of a statement of a batch, and of emails

	// What the emails say: whose they are, where the code is to be entered and their link leads, and in which words. By default
	// the program's own name, the host of the sender's address, and the program's own words.
	Brand   brand.Brand
	BaseURL string // such as https://connect.example.com
	Texts   *locale.Catalogue

	// EndConnections ends the connections of a user within the transaction that deletes the user, and returns how many it
	// ended: connections are another domain's. [Accounts.DeleteUser] needs it.
	EndConnections func(ctx context.Context, tx pgx.Tx, userID uuid.UUID) (int64, error)
	// EndRequests ends what users signed in to and have not decided yet, within the transaction that changes their
	// addresses. [Accounts.ChangeUser], [Accounts.PutUsers] and [Accounts.ImportUsers] need it.
	EndRequests func(ctx context.Context, tx pgx.Tx, userIDs []uuid.UUID) error
}

// Accounts are the users and their sign-ins. It is safe for concurrent use.
type Accounts struct {
	store
	keys     *credential.Keyring
	settings Settings
	look     atomic.Pointer[look]
	mailer   *Mailer
	outbox   *outbox
	codes    codeCounts

	timezones timezones
	batches   *fairqueue.Queue // of users
}

// New returns the accounts in the database of pool. No email is sent until Run is called.
func New(pool *postgres.Pool, keys *credential.Keyring, mailer *Mailer, settings Settings) *Accounts {
	if settings.BaseURL == "" && mailer != nil {
		settings.BaseURL = "https://" + mailer.domain
	}
	settings.Limits = settings.Limits.OrDefault()
	a := &Accounts{
		store:    newStore(pool),
		keys:     keys,
		settings: settings,
		mailer:   mailer,
		outbox:   newOutbox(),
		codes:    newCodeCounts(),
		batches:  fairqueue.New(batchesAtOnce, batchesWaiting),
	}
	a.SetLook(settings.Brand, settings.Texts)
	return a
}

// look is what emails say besides the code. It can change while they are sent.
type look struct {
	brand brand.Brand
	texts *locale.Catalogue
}

// SetLook changes whose the emails are, and in which words, from the next one on. See [Settings].
func (a *Accounts) SetLook(of brand.Brand, texts *locale.Catalogue) {
	of.Name = cmp.Or(of.Name, brand.DefaultName)
	if texts == nil {
		texts = locale.Default()
	}
	a.look.Store(&look{of, texts})
}

// CodeRequest asks for a one-time code.
type CodeRequest struct {
	SignIn   uuid.UUID    // what the code is for
	Email    string       // as typed
	Network  netip.Addr   // of the user; the zero value is one network of its own
	Known    []BrowserKey // what the browser kept of former sign-ins
	Partner  string       // name of the partner that asks for the authorization; empty for the account pages
	LinkPath string       // of the page that takes what is behind its last slash to VerifyLink
	Language string       // of the page, and so of the email: a BCP 47 tag; English where there are no texts in it
}

// SendCode makes a new code and a new link and puts their email into the database, from where Run sends it. Its result does not
// reveal whether the address has an account. What is new replaces the old of this sign-in and its attempts. A browser that has
// signed in to the account before has a budget of its own; all others share that of the address. Errors: ErrInvalidEmail,
// *TooManyCodesError.
func (a *Accounts) SendCode(ctx context.Context, request CodeRequest) (err error) {
	if !mailbox.Valid(request.Email) {
		return ErrInvalidEmail
	}
	defer func() { a.codes.sent(err) }()
	// At a random instant: it is not the requests that follow which share the processors with a mail server nearby.
	delay := mathrand.N(a.settings.Limits.MailDelay)
	if err := a.putCode(ctx, request, delay); err != nil {
		return err
	}
	time.AfterFunc(delay, a.outbox.signal)
	return nil
}

// SignIn is the state of a sign-in that waits for its code.
type SignIn struct {
	Email        string // as typed
	AttemptsLeft int    // 0 to 5
	NoCodes      bool   // too many wrong ones were entered: the link alone works
	Expired      bool
	SentAt       time.Time // when its newest code was made
	Mail         Mail      // what became of the email with it
}

// Mail is what became of the email with a code, as far as a page may tell. It does not depend on whether there is an account.
type Mail string

// The mail server was not reached yet, has taken the email, or could not be reached: then the code works no more.
const (
	MailWaiting Mail = "waiting"
	MailSent    Mail = "sent"
	MailFailed  Mail = "failed"
)

// NextCode is when this browser may ask for another code of the sign-in, and how long that is from now; zero: now. It does not
// depend on whether the address has an account.
func (a *Accounts) NextCode(ctx context.Context, request CodeRequest) (at time.Time, wait time.Duration, err error) {
	found, browser, err := a.findForSignIn(ctx, a.queries, request)
	if err == nil {
		at, wait, err = a.nextEmail(ctx, a.limits(found.Folded, browser, request.Network))
	}
	return at, wait, postgres.Wrap("account: when the next code may be made", err)
}

// Verified is a sign-in whose user has proved to read the emails of an account's address.
type Verified struct {
	UserID uuid.UUID
	// Secret is for the browser that gave the proof, and nobody who has not given it knows it. A form that is submitted twice
	// gets the same one twice.
	Secret [32]byte

	seed []byte // names the email
}

// VerifyCode returns the user whose code it is, as it was typed or pasted. It spends one of the five attempts, also
// when the code is right: a form that is submitted twice gets the same result twice, and only the purpose of the sign-in
// is fulfilled once. Each attempt is counted as failed, before the code is compared, until one is right, and after a hundred
// none is compared any more. Errors: ErrMalformedCode (spends no attempt), *WrongCodeError, ErrCodeSpent, ErrCodeExpired,
// ErrCodeNotSent, ErrNoSignIn.
func (a *Accounts) VerifyCode(ctx context.Context, signIn uuid.UUID, code string) (verified Verified, err error) {
	defer func() { a.codes.verified(err) }()
	code = digits(code)
	if len(code) != codeDigits || strings.Trim(code, "0123456789") != "" {
		return Verified{}, ErrMalformedCode
	}
	attempt, err := a.takeAttempt(ctx, signIn)
	if err != nil {
		return Verified{}, err
	}
	right := subtle.ConstantTimeCompare([]byte(a.codeOf(signIn, attempt.Seed)), []byte(code)) == 1
	if !right || attempt.UserID == nil { // a guess may match the code of an address without an account
		return Verified{}, &WrongCodeError{AttemptsLeft: int(attempt.AttemptsLeft)}
	}
	return a.accept(ctx, signIn, *attempt.UserID, attempt.Seed, attempt.Budget, code)
}

// accept forgets failed attempts. The proof is what the user has given.
func (a *Accounts) accept(ctx context.Context, signIn, user uuid.UUID, seed, budget []byte, proof string) (Verified, error) {
	if err := a.queries.ForgetAttempts(ctx, budget); err != nil {
		return Verified{}, fmt.Errorf("account: forget attempts: %w", err)
	}
	return Verified{user, a.keys.PRF("secret of a sign-in", signIn[:], []byte(proof)), seed}, nil
}

// Sweep deletes sign-ins whose code has expired, limits whose hour is over, and ended sessions. Every server may call it
// at any time; once a minute is enough.
func (a *Accounts) Sweep(ctx context.Context) error {
	for what, sweep := range map[string]func(context.Context) (int64, error){
		"sign-ins": a.queries.DeleteExpiredSignIns,
		"limits":   a.queries.DeletePastLimits,
		"sessions": a.queries.DeleteExpiredSessions,
		"browsers": a.queries.DeletePastBrowsers,
	} {
		if _, err := sweep(ctx); err != nil {
			return fmt.Errorf("account: sweep %s: %w", what, err)
		}
	}
	return nil
}

const codeDigits = 6

// Attempts that a code has.
const Attempts = 5

// maxFailed is how many attempts at codes a budget has, until somebody signs in with it or 30 days pass without an email (NIST
// SP 800-63B, section 3.2.2).
const maxFailed = 100

// digits are those of a code, in whatever script they were typed or pasted. It leaves out spaces, hyphens and what cannot be
// seen; everything else stays, and makes the code malformed.
func digits(code string) string {
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

// digitValue is 0 to 9. The digits of a script follow each other, from zero on, and some scripts another one.
func digitValue(c rune) (value rune) {
	for unicode.Is(unicode.Nd, c-value-1) {
		value++
	}
	return value % 10
}

// newSeed makes a new code.
func newSeed() []byte {
	seed := make([]byte, 16)
	rand.Read(seed)
	return seed
}

// codeOf is the code of a sign-in with this seed. Each server that has the keys can make it, and so write the email; who has
// the database alone learns nothing of it. Of 2^64 values no code gets noticeably more than another.
func (a *Accounts) codeOf(signIn uuid.UUID, seed []byte) string {
	output := a.keys.PRF("sign-in code", signIn[:], seed)
	return fmt.Sprintf("%0*d", codeDigits, binary.BigEndian.Uint64(output[:8])%1_000_000)
}
