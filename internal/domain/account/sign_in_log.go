package account

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	accountdb "connect-svc/gen/db/account"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/text"
	"connect-svc/internal/foundation/work"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// SignInLog is what happened to the sign-ins of an address within 7 days, for support.
type SignInLog struct {
	UserID     uuid.UUID     // who has the address, or uuid.Nil
	Events     []SignInEvent // latest first
	NextCodeAt time.Time     // when the limit of the address admits the next code, or zero if that is now
	CodesWork  bool          // the address has had less than a hundred wrong codes; otherwise only links work
}

// SignInEvent is an entry of the log.
type SignInEvent struct {
	At      time.Time
	SignIn  uuid.UUID
	Kind    SignInEventKind
	Waiting bool      // the email of this code waits for the mail server
	Limit   string    // that has refused, or empty
	Until   time.Time // when it admits the next code
	Detail  string    // the answer of the mail server, the number of a wrong attempt, or the operator who lifted the limits
}

// SignIns returns what happened to the sign-ins of an address, with or without an account.
func (a *Accounts) SignIns(ctx context.Context, email string) (log SignInLog, err error) {
	defer func() { err = postgres.Wrap("account: sign-ins of an address", err) }()
	if !text.IsAddress(email) {
		return SignInLog{CodesWork: true}, nil
	}
	address := text.AddressKey(email)
	stored, err := a.queries.FindForSignIn(ctx, accountdb.FindForSignInParams{Address: address})
	if err != nil {
		return log, err
	}
	log.UserID = postgres.Value(stored.UserID)
	key := a.logKey(address)
	rows, err := a.queries.ListSignInEvents(ctx, accountdb.ListSignInEventsParams{Key: key[:], Most: 500})
	if err != nil {
		return log, err
	}
	var signIns []uuid.UUID
	log.Events = postgres.Map(rows, func(row accountdb.SignInEvent) SignInEvent {
		signIns = append(signIns, row.SignInID)
		return SignInEvent{
			At: row.At, SignIn: row.SignInID, Kind: SignInEventKind(row.Event), Limit: postgres.Value(row.LimitedBy), Until: postgres.Value(row.Until),
			Detail: row.Detail,
		}
	})
	waiting, err := a.queries.ListWaiting(ctx, slices.Compact(signIns))
	if err != nil {
		return log, err
	}
	for _, signIn := range waiting { // the newest code of a sign-in is the one whose email waits
		i := slices.IndexFunc(log.Events, func(e SignInEvent) bool { return e.SignIn == signIn && e.Kind == codeAsked })
		if i >= 0 {
			log.Events[i].Waiting = true
		}
	}
	budget := a.addressLimit(address)
	counters, err := readCounters(ctx, a.queries, budget)
	if err != nil {
		return log, err
	}
	if next := nextOf(counters); next.After(stored.Now) {
		log.NextCodeAt = next
	}
	failed, err := a.failed(ctx, budget.key[:])
	log.CodesWork = codesWork(failed)
	return log, err
}

// addressLimit returns the limit of an address, a [text.AddressKey].
func (a *Accounts) addressLimit(address string) limit {
	limits := a.limits(address, BrowserKey{}, netip.Addr{})
	return limits[len(limits)-1]
}

// AddressKeys returns the keys under which the log of sign-ins and their limits have an address.
func (a *Accounts) AddressKeys(email string) [][]byte {
	address := text.AddressKey(email)
	key, budget, firsts := a.logKey(address), a.addressLimit(address), a.firsts(address)
	return [][]byte{key[:], budget.key[:], firsts.key[:]}
}

// LiftSignInLimits lets the limits of a user's address begin anew: those of codes and of wrong codes, in all networks and known browsers
// whose sign-ins the log has. Limits of networks stay, because they protect others. The audit log names the actor of ctx. Error:
// refusal.ErrUserNotFound.
func (a *Accounts) LiftSignInLimits(ctx context.Context, userID uuid.UUID) error {
	user, err := a.GetUser(ctx, userID)
	if err != nil {
		return err
	}
	err = postgres.InTx(ctx, a.pool, func(tx pgx.Tx) error {
		queries := a.queries.WithTx(tx)
		address := text.AddressKey(user.Email)
		row, err := queries.FindForSignIn(ctx, accountdb.FindForSignInParams{Address: address})
		if err != nil {
			return err
		}
		key, budget, firsts := a.logKey(address), a.addressLimit(address), a.firsts(address)
		keys, err := queries.ListLimitKeys(ctx, key[:])
		if err != nil {
			return err
		}
		for _, limit := range append(keys, budget.key[:], firsts.key[:]) {
			if err := queries.LiftLimit(ctx, limit); err != nil {
				return err
			}
		}
		if err := queries.InsertLimitsLifted(ctx, accountdb.InsertLimitsLiftedParams{UserID: userID, Actor: work.Actor(ctx)}); err != nil {
			return err
		}
		return queries.AddSignInEvent(ctx, accountdb.AddSignInEventParams{
			Key: key[:], ID: uuid.New(), At: row.Now, Event: string(limitsLifted), Detail: work.Actor(ctx),
		})
	})
	return postgres.Wrap("account: lift the limits of an address", err)
}

// SignInEventKind is what happened to a sign-in.
type SignInEventKind string

// The kinds of events.
const (
	codeAsked    SignInEventKind = "asked"      // a code was made
	codeRefused  SignInEventKind = "refused"    // by a limit
	emailSent    SignInEventKind = "sent"       // the mail server has taken the email
	noAccount    SignInEventKind = "no_account" // so no email is sent
	emailDelayed SignInEventKind = "delayed"    // the mail server has not taken it, and is tried again
	emailFailed  SignInEventKind = "failed"     // it was given up
	codeWrong    SignInEventKind = "wrong"
	codeSpent    SignInEventKind = "spent"   // an attempt after the last one
	codeExpired  SignInEventKind = "expired" // an attempt after 10 minutes
	signedIn     SignInEventKind = "signed_in"
	limitsLifted SignInEventKind = "lifted" // by an operator
)

const (
	// mostLogged bounds the events that wait to be stored: further ones are dropped.
	mostLogged = 4096
	// mostNetworks bounds the networks whose refusals are counted. The refusals of further ones are dropped.
	mostNetworks = 10_000
)

// signInLog are the events that wait to be stored. They are stored beside the requests, so that no request takes longer, whether or not
// the address has an account.
type signInLog struct {
	work.Buffer[loggedKey, loggedEvent]

	latest   time.Time // of the stored events
	hour     time.Time
	refusals map[[32]byte]int // by network, within the hour: those by its own limit
}

type loggedEvent struct {
	accountdb.AddSignInEventParams
	noted   time.Time // by the clock of this server
	network [32]byte  // that asked
}

type loggedKey struct {
	key [32]byte
	id  uuid.UUID
}

// logEntry is an event.
type logEntry struct {
	key      [32]byte // of the address
	signIn   uuid.UUID
	event    SignInEventKind
	detail   string
	distinct []byte   // distinguishes events of this kind in the sign-in
	limit    []byte   // see sign_in_events
	network  [32]byte // that asked
}

// logKey returns the key of the log of an address, of whose [text.AddressKey] it is a hash.
func (a *Accounts) logKey(address string) [32]byte {
	return a.keys.PRF("sign-ins of an e-mail address", []byte(address))
}

// log has an event stored soon. It never waits.
func (a *Accounts) log(entry logEntry) {
	a.signIns.Add(loggedEvent{accountdb.AddSignInEventParams{
		Key: entry.key[:], ID: uuid.NewSHA1(entry.signIn, append([]byte(entry.event+" "), entry.distinct...)), SignInID: entry.signIn,
		Event: string(entry.event), Detail: entry.detail, LimitKey: entry.limit,
	}, time.Now(), entry.network})
}

// logRefusal logs that a limit has refused a code. All refusals until the same time are one event, so those by limits of an address are
// bounded by its codes. A network may have as many in an hour as its limit allows codes: so strangers cannot fill the database with
// addresses that they make up.
func (a *Accounts) logRefusal(entry logEntry, refusal *TooManyCodesError) {
	distinct := refusal.Limit + " " + refusal.Next.UTC().Format(time.RFC3339Nano)
	a.signIns.Add(loggedEvent{accountdb.AddSignInEventParams{
		Key: entry.key[:], ID: uuid.NewSHA1(uuid.Nil, []byte(distinct)), SignInID: entry.signIn, Event: string(codeRefused),
		LimitedBy: &refusal.Limit, Until: &refusal.Next, LimitKey: entry.limit,
	}, time.Now(), entry.network})
}

// logEmail logs what happened to an email. until 1.3.0: emails of programs of 1.0.0 have no key.
func (a *Accounts) logEmail(email waitingEmail, event SignInEventKind, detail string) {
	if email.LogKey != nil {
		a.log(logEntry{
			key: [32]byte(email.LogKey), signIn: email.SignInID, event: event, detail: withoutAddress(detail),
			distinct: slices.Concat(email.Seed, []byte{byte(email.Attempts)}), //nolint:gosec // a few
		})
	}
}

func (a *Accounts) newSignInLog() *signInLog {
	l := &signInLog{refusals: map[[32]byte]int{}}
	l.Buffer = work.Buffer[loggedKey, loggedEvent]{
		Name: "events of sign-ins", Logger: a.settings.Logger, Most: mostLogged, Batch: mostLogged, Limit: a.settings.Limits.Claim,
		Key:   func(event loggedEvent) loggedKey { return loggedKey{[32]byte(event.Key), event.ID} },
		Admit: func(event loggedEvent) bool { return l.admits(event, a.settings.CodesPerNetwork) },
		Write: func(ctx context.Context, events []loggedEvent) (stored int, err error) {
			return l.write(ctx, a.queries, events)
		},
	}
	return l
}

// admits reports whether an event may be stored. It counts those of a network's own limit, of which the network may have most.
func (l *signInLog) admits(event loggedEvent, most int) bool {
	if event.LimitedBy == nil || *event.LimitedBy != ofNetwork {
		return true
	}
	if hour := event.noted.Truncate(time.Hour); !hour.Equal(l.hour) {
		l.hour, l.refusals = hour, map[[32]byte]int{}
	}
	before, known := l.refusals[event.network]
	if before >= most || !known && len(l.refusals) >= mostNetworks {
		return false
	}
	l.refusals[event.network]++
	return true
}

// write stores events in their order, with the time of the database. An event that cannot be stored is dropped.
func (l *signInLog) write(ctx context.Context, queries *accountdb.Queries, events []loggedEvent) (stored int, err error) {
	now, err := queries.Now(ctx)
	if err != nil {
		return 0, err
	}
	here := time.Now()
	for i, event := range events {
		event.At = now.Add(-here.Sub(event.noted))
		if ahead := l.latest.Sub(event.At); ahead >= 0 && ahead < time.Second { // the clocks do not pass alike
			event.At = l.latest.Add(time.Microsecond)
		}
		l.latest = event.At
		if err := queries.AddSignInEvent(ctx, event.AddSignInEventParams); err != nil {
			return i + 1, err
		}
	}
	return len(events), nil
}

var (
	addressLike = regexp.MustCompile(`[^\s<>()"',;:]*@[^\s<>()"',;:]*`)
	codeLike    = regexp.MustCompile(`\b\d{6}\b`)
)

// withoutAddress returns an answer of a mail server on one line, without what may be an address or a code.
func withoutAddress(answer string) string {
	answer = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(answer, " "))
	answer = codeLike.ReplaceAllString(addressLike.ReplaceAllString(answer, "[address]"), "[digits]")
	runes := []rune(strings.Join(strings.Fields(answer), " "))
	return string(runes[:min(len(runes), 200)])
}

// answerOf returns what the mail server said when it refused, or why it was not reached.
func answerOf(err error) string {
	if refusal := (*textproto.Error)(nil); errors.As(err, &refusal) {
		return fmt.Sprintf("%d %s", refusal.Code, refusal.Msg)
	}
	return err.Error()
}
