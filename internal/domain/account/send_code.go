package account

import (
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	accountdb "connect-svc/gen/db/account"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/text"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
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
	Browser  string       // a BrowserName, which the email says
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
	Over  bool          // what the code is for ends before
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

// meant returns the address that somebody means who pastes it in quotes, with the end of its sentence, or with the name of its owner as in
// Ada <ada@example.com>. No address ends like that.
func meant(email string) string {
	surrounds := func(c rune) bool {
		return unicode.In(c, unicode.White_Space, unicode.Cf, unicode.Pi, unicode.Pf) || strings.ContainsRune(`"'„‚<>`, c)
	}
	follows := func(c rune) bool { return surrounds(c) || strings.ContainsRune(".,;", c) }
	if end, _ := utf8.DecodeLastRuneInString(email); !follows(end) {
		return email
	}
	return strings.TrimLeftFunc(strings.TrimRightFunc(email[strings.LastIndexByte(email, '<')+1:], follows), surrounds)
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
		a.log(entry) // before what happens to the email
		time.AfterFunc(delay, a.outbox.wake.Send)
	} else if tooMany := new(TooManyCodesError); errors.As(err, &tooMany) {
		tooMany.Over = !request.Until.IsZero() && tooMany.Next.After(request.Until)
		a.logRefusal(entry, tooMany)
	}
	return postgres.Wrap("account: store a code", err)
}

func (a *Accounts) storeCodeIn(ctx context.Context, queries *accountdb.Queries, request CodeRequest, delay time.Duration, entry *logEntry) error {
	row, browser, err := a.findForSignIn(ctx, queries, request)
	if err != nil {
		return err
	}
	address := text.AddressKey(request.Email)
	seed, limits := make([]byte, 16), a.limits(address, browser, request.Network)
	rand.Read(seed)
	queues := a.networkLimits(request.Network)
	queue := queues[len(queues)-1].key
	*entry = logEntry{key: a.logKey(address), signIn: request.SignIn, event: codeAsked, distinct: seed, network: queue}
	for _, l := range limits {
		if l.name == knownBrowser || l.name == addressInNetwork {
			entry.limit = l.key[:]
		}
	}
	counted, err := countEmail(ctx, queries, row.Now, limits, a.firsts(address))
	if err != nil {
		return err
	}
	expires := row.Now.Add(CodeLifetime)
	if !request.Until.IsZero() && request.Until.Before(expires) {
		expires = request.Until
	}
	err = queries.PutSignIn(ctx, accountdb.PutSignInParams{
		SignInID: request.SignIn, Email: request.Email, Address: address, UserID: row.UserID, Seed: seed,
		Budget: limits[len(limits)-1].key[:], ExpiresAt: expires,
	})
	if err != nil {
		return err
	}
	if browser != (BrowserKey{}) {
		queue = limits[len(limits)-1].key // the email of a known browser does not wait behind its network
	}
	return queries.PutCodeEmail(ctx, accountdb.PutCodeEmailParams{
		SignInID: request.SignIn, Seed: seed, Network: queue[:], Place: a.outbox.place(queue), Limits: counted, CountedAt: row.Now,
		Language: request.Language, Partner: request.Partner, LinkPath: request.LinkPath, LogKey: entry.key[:], Browser: request.Browser,
		Delay: delay,
	})
}

// findForSignIn returns the account of an address, if any, and the key that proves that the browser is known to it, or the zero value. A
// browser without such a key causes the same statements with and without an account.
func (a *Accounts) findForSignIn(ctx context.Context, queries *accountdb.Queries, request CodeRequest) (row accountdb.FindForSignInRow, browser BrowserKey, err error) {
	row, err = queries.FindForSignIn(ctx, accountdb.FindForSignInParams{Address: text.AddressKey(request.Email)})
	if err != nil || row.UserID == nil {
		return row, browser, err
	}
	key := keyOf(request.Known, *row.UserID)
	if key == (BrowserKey{}) {
		return row, browser, nil
	}
	known, err := queries.KnowsBrowser(ctx, accountdb.KnowsBrowserParams{UserID: key.UserID, BrowserID: key.id()})
	if known {
		browser = key
	}
	return row, browser, err
}

// NextCode returns when this browser may request another code for the sign-in, and how long that is from now; zero values mean now. It
// does not depend on whether the address has an account.
func (a *Accounts) NextCode(ctx context.Context, request CodeRequest) (at time.Time, wait time.Duration, err error) {
	row, browser, err := a.findForSignIn(ctx, a.queries, request)
	if err != nil {
		return at, wait, postgres.Wrap("account: when the next code may be made", err)
	}
	typed := text.AddressKey(request.Email)
	counters, err := readCounters(ctx, a.queries, append(a.limits(typed, browser, request.Network), a.firsts(typed))...)
	if err == nil {
		_, at = admit(counters[:len(counters)-1], counters[len(counters)-1], row.Now)
		wait = max(0, at.Sub(row.Now))
	}
	return at, wait, postgres.Wrap("account: when the next code may be made", err)
}

// Names of limits, besides that of the address.
const (
	knownBrowser     = "known_browser"
	addressInNetwork = "address_in_network"
	ofNetwork        = "network"
)

// limits returns the limits of an email for an address, in the order in which their rows are locked. The last one is the budget, towards
// which attempts at its code count, too.
//
// A known browser has only its own limit: others with the same address or in the same network do not affect it. All other browsers share
// the limit of the address, a [text.AddressKey], of which a network may use half a day's, and the limits of their network.
func (a *Accounts) limits(address string, browser BrowserKey, network netip.Addr) []limit {
	emails := a.settings.CodesPerEmail
	if browser != (BrowserKey{}) {
		id := browser.id()
		return []limit{{a.keys.PRF("sign-in codes of a known browser", browser.UserID[:], id[:]), emails, daily * emails, knownBrowser}}
	}
	networks := a.networkLimits(network)
	widest := networks[len(networks)-1]
	return append(networks,
		limit{a.keys.PRF("sign-in codes of an address in a network", []byte(address), widest.key[:]), 0, daily * emails / 2, addressInNetwork},
		limit{a.keys.PRF("sign-in codes of an e-mail address", []byte(address)), emails, daily * emails, "address"})
}

// firsts returns the limit of the first emails of networks for an address. See [admit].
func (a *Accounts) firsts(address string) limit {
	emails := a.settings.CodesPerEmail
	return limit{a.keys.PRF("sign-in codes of an address, by networks", []byte(address)), emails, daily * emails, "address"}
}

// networkLimits returns the limit of an IPv4 address, or those of the networks of an IPv6 address: a machine has a /64, a household a /56,
// and a company or any customer on request a /48. The widest is the last.
func (a *Accounts) networkLimits(address netip.Addr) []limit {
	limitOf := func(network string, times int) limit {
		return limit{a.keys.PRF("sign-in codes of a network", []byte(network)), times * a.settings.CodesPerNetwork, 0, ofNetwork}
	}
	address = address.Unmap().WithZone("")
	if !address.Is6() {
		return []limit{limitOf(address.String(), 1)}
	}
	within := func(bits int) string { return netip.PrefixFrom(address, bits).Masked().String() }
	return []limit{limitOf(within(64), 1), limitOf(within(56), 4), limitOf(within(48), 16)}
}

// readCounters reads what limits have counted.
func readCounters(ctx context.Context, queries *accountdb.Queries, limits ...limit) ([]counter, error) {
	counters := make([]counter, len(limits))
	for i, l := range limits {
		emails, err := queries.GetCounter(ctx, l.key[:])
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return nil, err
		}
		counters[i] = counter{limit: l, emails: emails, stored: emails}
	}
	return counters, nil
}

// errOvertaken means that another transaction changed what this one had read and decided on. The transaction is to be repeated.
var errOvertaken = errors.New("changed in the meantime")

// countEmail counts an email towards the limits, or towards firsts instead of the last one. It returns the keys of those that have
// counted it. Errors: *TooManyCodesError, errOvertaken.
func countEmail(ctx context.Context, queries *accountdb.Queries, now time.Time, limits []limit, firsts limit) (counted [][]byte, err error) {
	counters, err := readCounters(ctx, queries, append(slices.Clone(limits), firsts)...)
	if err != nil {
		return nil, err
	}
	changed, next := admit(counters[:len(limits)], counters[len(limits)], now)
	if changed == nil {
		return nil, &TooManyCodesError{Next: next, Wait: next.Sub(now), Limit: latest(counters[:len(limits)]).name}
	}
	for _, c := range changed {
		n, err := queries.PutCounter(ctx, accountdb.PutCounterParams{
			Key: c.key[:], AskedAt: append([]time.Time{}, c.emails...), At: now, Seen: append([]time.Time{}, c.stored...), // nil would be null
		})
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, errOvertaken
		}
		counted = append(counted, c.key[:])
	}
	return counted, nil
}
