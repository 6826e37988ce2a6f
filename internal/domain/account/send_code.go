package account

import (
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"net/netip"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	accountdb "connect-svc/gen/db/account"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/text"
)

// CodeRequest asks for a one-time code.
type CodeRequest struct {
	SignIn   uuid.UUID    // the sign-in that the code is for
	Email    string       // as typed
	Network  netip.Addr   // of the user; the zero value is a network of its own
	Known    []BrowserKey // the browser's keys of earlier sign-ins
	Partner  string       // name of the partner of the authorization request; empty for the account pages
	LinkPath string       // of the page that passes the part after its last slash to VerifyLink
	Until    time.Time    // when what it is for ends, so that the code works no longer, or zero if later than the code
	Language string       // of the page and the email: a BCP 47 tag; English if there are no texts in it
}

// Errors of SendCode.
var (
	ErrInvalidEmail = errors.New("not an e-mail address")
	ErrTooManyCodes = errors.New("too many codes within an hour or a day")
)

// TooManyCodesError is ErrTooManyCodes with its end.
type TooManyCodesError struct {
	Next  time.Time     // when the limits admit the next code
	Wait  time.Duration // until then
	Limit string        // the name of the one that admits it last
}

func (e *TooManyCodesError) Error() string { return ErrTooManyCodes.Error() }

// Unwrap makes it ErrTooManyCodes.
func (e *TooManyCodesError) Unwrap() error { return ErrTooManyCodes }

// SendCode makes a new code and a new link, and stores their email for Run to send. The result does not reveal whether the address has
// an account. The new code and link replace the earlier ones of this sign-in, and its attempts. A browser in which the user has signed
// in before has a budget of its own; all others share the budget of the address. Errors: ErrInvalidEmail, *TooManyCodesError.
func (a *Accounts) SendCode(ctx context.Context, request CodeRequest) (err error) {
	if request.Email = text.StoredAddress(meant(request.Email)); !text.IsAddress(request.Email) {
		return ErrInvalidEmail
	}
	defer func() { a.count("sent", err) }()
	// The email leaves after a random delay. Otherwise a mail server nearby would slow down the requests that follow, and so reveal that
	// there is an account.
	return a.storeCode(ctx, request, mathrand.N(a.settings.Limits.MailDelay))
}

// meant returns the address that somebody means who pastes it in quotes, or with the name of its owner as in Ada <ada@example.com>. No
// address ends like that.
func meant(email string) string {
	surrounds := func(c rune) bool {
		return unicode.In(c, unicode.White_Space, unicode.Cf, unicode.Pi, unicode.Pf) || strings.ContainsRune(`"'„‚<>`, c)
	}
	if end, _ := utf8.DecodeLastRuneInString(email); !surrounds(end) {
		return email
	}
	return strings.TrimFunc(email[strings.LastIndexByte(email, '<')+1:], surrounds)
}

// storeCode counts the email towards every limit and stores it with its code, in one transaction. The transaction is repeated if another
// one has counted an email in the meantime, which the limits allow only a few times. Error: *TooManyCodesError.
func (a *Accounts) storeCode(ctx context.Context, request CodeRequest, delay time.Duration) (err error) {
	entry := logEntry{signIn: request.SignIn}
	for err = errOvertaken; ctx.Err() == nil && errors.Is(err, errOvertaken); {
		err = postgres.InTx(ctx, a.pool, func(tx pgx.Tx) error {
			return a.storeCodeIn(ctx, a.queries.WithTx(tx), request, delay, &entry)
		})
	}
	if err == nil {
		time.AfterFunc(delay, a.outbox.signal)
		a.log(entry)
	} else if tooMany := new(TooManyCodesError); errors.As(err, &tooMany) {
		a.logRefusal(entry, tooMany)
	}
	return postgres.Wrap("account: store a code", err)
}

func (a *Accounts) storeCodeIn(
	ctx context.Context, queries *accountdb.Queries, request CodeRequest, delay time.Duration, entry *logEntry,
) error {
	found, browser, err := a.findForSignIn(ctx, queries, request)
	if err != nil {
		return err
	}
	address := text.AddressKey(request.Email)
	seed, limits := make([]byte, 16), a.limits(address, browser, request.Network)
	rand.Read(seed)
	queues := a.networkLimits(request.Network)
	queue := queues[len(queues)-1].key
	*entry = logEntry{key: a.logKey(address), signIn: request.SignIn, event: CodeAsked, distinct: seed, network: queue}
	for _, l := range limits {
		if l.name == knownBrowser || l.name == addressInNetwork {
			entry.limit = l.key[:]
		}
	}
	counted, err := countEmail(ctx, queries, found.Now, limits, a.firsts(address))
	if err != nil {
		return err
	}
	expires := found.Now.Add(CodeLifetime)
	if !request.Until.IsZero() && request.Until.Before(expires) {
		expires = request.Until
	}
	err = queries.PutSignIn(ctx, accountdb.PutSignInParams{
		SignInID: request.SignIn, Email: request.Email, Address: address, UserID: found.UserID, Seed: seed,
		Budget: limits[len(limits)-1].key[:], ExpiresAt: expires,
	})
	if err != nil {
		return err
	}
	if browser != (BrowserKey{}) {
		queue = limits[len(limits)-1].key // the email of a known browser does not wait behind its network
	}
	return queries.PutCodeEmail(ctx, accountdb.PutCodeEmailParams{
		SignInID: request.SignIn, Seed: seed, Network: queue[:], Place: a.outbox.place(queue), Limits: counted, CountedAt: found.Now,
		Language: request.Language, Partner: request.Partner, LinkPath: request.LinkPath, LogKey: entry.key[:],
		Delay: delay,
	})
}

// findForSignIn returns the account of an address, if any, and the key that proves that the browser is known to it, or the zero value. A
// browser without such a key causes the same statements with and without an account.
func (a *Accounts) findForSignIn(ctx context.Context, queries *accountdb.Queries, request CodeRequest) (found accountdb.FindForSignInRow, browser BrowserKey, err error) {
	found, err = queries.FindForSignIn(ctx, accountdb.FindForSignInParams{Address: text.AddressKey(request.Email), Expected: a.pool.Expected()})
	if err != nil || found.UserID == nil {
		return found, browser, err
	}
	key := keyOf(request.Known, *found.UserID)
	if key == (BrowserKey{}) {
		return found, browser, nil
	}
	known, err := queries.KnowsBrowser(ctx, accountdb.KnowsBrowserParams{UserID: key.UserID, BrowserID: key.id()})
	if known {
		browser = key
	}
	return found, browser, err
}

// NextCode returns when this browser may request another code for the sign-in, and how long that is from now; zero values mean now. It
// does not depend on whether the address has an account.
func (a *Accounts) NextCode(ctx context.Context, request CodeRequest) (at time.Time, wait time.Duration, err error) {
	found, browser, err := a.findForSignIn(ctx, a.queries, request)
	if err != nil {
		return at, wait, postgres.Wrap("account: when the next code may be made", err)
	}
	counters, err := readCounters(ctx, a.queries, a.limits(text.AddressKey(request.Email), browser, request.Network)...)
	if next := nextOf(counters); next.After(found.Now) {
		at, wait = next, next.Sub(found.Now)
	}
	return at, wait, postgres.Wrap("account: when the next code may be made", err)
}
