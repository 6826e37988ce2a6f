package account

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/netip"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/credential"
	"connect-svc/internal/postgres"
)

// Errors of sign-ins. WrongCodeError is the other one.
var (
	ErrInvalidEmail  = errors.New("not an e-mail address")
	ErrTooManyCodes  = errors.New("too many codes within an hour")
	ErrOutboxFull    = errors.New("no letter can be taken at the moment")
	ErrNoSignIn      = errors.New("no code was asked for, or long ago")
	ErrMalformedCode = errors.New("not six digits")
	ErrCodeExpired   = errors.New("the code is older than 10 minutes")
	ErrCodeSpent     = errors.New("the code has had its five tries")
)

// WrongCodeError is the answer to a code that is not the one that was sent.
type WrongCodeError struct {
	TriesLeft int // 0 to 4
}

func (e *WrongCodeError) Error() string { return fmt.Sprintf("wrong code, %d tries left", e.TriesLeft) }

// Settings of an Accounts.
type Settings struct {
	CodesPerEmail   int // codes sent to one address an hour; 0 is no limit
	CodesPerNetwork int // codes asked for from one network an hour; 0 is no limit
	Logger          *slog.Logger

	// EndConnections ends the connections of a user within the transaction that deletes the user, and returns how many it
	// ended: connections are another domain's. [Accounts.DeleteUser] needs it.
	EndConnections func(ctx context.Context, tx pgx.Tx, userID uuid.UUID) (int64, error)
}

// Accounts are the users and their sign-ins. It is safe for concurrent use.
type Accounts struct {
	store    store
	keys     *credential.Keyring
	settings Settings
	outbox   *outbox
	counts   counts
}

// New returns the accounts in the database of pool. No letter leaves until Run is called.
func New(pool *postgres.Pool, keys *credential.Keyring, mailer *Mailer, settings Settings) *Accounts {
	return &Accounts{
		store:    newStore(pool),
		keys:     keys,
		settings: settings,
		outbox:   newOutbox(mailer, settings.Logger),
	}
}

// CodeRequest asks for a one-time code.
type CodeRequest struct {
	SignIn  uuid.UUID  // what the code is for
	Email   string     // as typed
	Network netip.Addr // of the visitor; the zero value is one network of its own
	Company string     // which asks, for the letter; empty: nobody, the code is for the account pages
}

// SendCode makes a new code and has it sent if the address has an account; whether it has one, nobody learns. It
// replaces the code and the tries that this sign-in had. Errors: ErrInvalidEmail, ErrTooManyCodes, ErrOutboxFull.
func (a *Accounts) SendCode(ctx context.Context, request CodeRequest) (err error) {
	if !validEmail(request.Email) {
		return ErrInvalidEmail
	}
	code := newCode()
	defer func() { a.counts.sent(err) }()
	recipient, err := a.store.putCode(ctx, newSignIn{
		id:    request.SignIn,
		email: request.Email,
		hash:  a.hashCode(request.SignIn, code),
		limits: func(folded string) []codeLimit {
			return []codeLimit{
				{a.keys.PRF("sign-in codes of an e-mail address", []byte(folded)), a.settings.CodesPerEmail},
				{a.keys.PRF("sign-in codes of a network", network(request.Network)), a.settings.CodesPerNetwork},
			}
		},
	})
	if err != nil {
		return err
	}
	if !a.outbox.put(letter{to: recipient, code: code, company: request.Company}) {
		return ErrOutboxFull
	}
	return nil
}

// SignIn is what a page shows of a sign-in that waits for its code.
type SignIn struct {
	Email     string // as typed
	TriesLeft int    // 0 to 5
	Expired   bool
}

// GetSignIn tells where a sign-in stands. Error: ErrNoSignIn.
func (a *Accounts) GetSignIn(ctx context.Context, id uuid.UUID) (SignIn, error) {
	return a.store.getSignIn(ctx, id)
}

// VerifyCode returns whose code it is. Spaces and hyphens in it do not count. It takes one of the five tries, also when
// the code is right: a form that was sent twice gets the same answer twice, and the purpose of the sign-in is what
// happens once. Errors: ErrMalformedCode (takes no try), *WrongCodeError, ErrCodeSpent, ErrCodeExpired, ErrNoSignIn.
func (a *Accounts) VerifyCode(ctx context.Context, signIn uuid.UUID, code string) (user uuid.UUID, err error) {
	defer func() { a.counts.verified(err) }()
	code = digits(code)
	if len(code) != codeDigits || strings.Trim(code, "0123456789") != "" {
		return uuid.Nil, ErrMalformedCode
	}
	try, err := a.store.takeTry(ctx, signIn)
	if err != nil {
		return uuid.Nil, err
	}
	right := subtle.ConstantTimeCompare(a.hashCode(signIn, code), try.hash) == 1
	if !right || try.userID == uuid.Nil { // a guess may hit the code of an address without account
		return uuid.Nil, &WrongCodeError{TriesLeft: try.left}
	}
	return try.userID, nil
}

// Sweep deletes sign-ins whose code has expired, limits that no longer count anything, and ended sessions. Every server
// may call it at any time; once a minute is plenty.
func (a *Accounts) Sweep(ctx context.Context) error { return a.store.sweep(ctx) }

const codeDigits = 6

// digits is a code without what people write between its digits.
func digits(code string) string {
	return strings.NewReplacer(" ", "", "-", "", "\u00a0", "").Replace(code)
}

func newCode() string {
	n, err := rand.Int(rand.Reader, big.NewInt(1_000_000))
	if err != nil {
		panic(err) // crypto/rand.Reader does not fail
	}
	return fmt.Sprintf("%0*d", codeDigits, n)
}

// hashCode binds a code to its sign-in. It is keyed, because a million codes are soon tried.
func (a *Accounts) hashCode(signIn uuid.UUID, code string) []byte {
	hash := a.keys.PRF("sign-in code", signIn[:], []byte(code))
	return hash[:]
}

// network is what counts as one network: an IPv4 address, or the /64 that a household or a machine has of IPv6.
func network(address netip.Addr) []byte {
	address = address.Unmap().WithZone("")
	if !address.Is6() {
		return []byte(address.String())
	}
	return []byte(netip.PrefixFrom(address, 64).Masked().String())
}
