package account

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	accountdb "connect-svc/gen/db/account"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/text"
	"connect-svc/internal/foundation/work"
)

// SignInLog is what happened to the sign-ins of an address within 7 days, for support.
type SignInLog struct {
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

// mostEvents bounds a [SignInLog].
const mostEvents = 500

// SignIns returns what happened to the sign-ins of an address, with or without an account.
func (a *Accounts) SignIns(ctx context.Context, email string) (found SignInLog, err error) {
	defer func() { err = postgres.Wrap("account: sign-ins of an address", err) }()
	if !text.IsAddress(email) {
		return SignInLog{CodesWork: true}, nil
	}
	address := text.AddressKey(email)
	of, err := a.queries.FindForSignIn(ctx, accountdb.FindForSignInParams{Address: address, Expected: a.pool.Expected()})
	if err != nil {
		return found, err
	}
	key := a.logKey(address)
	rows, err := a.queries.ListSignInEvents(ctx, accountdb.ListSignInEventsParams{Key: key[:], Most: mostEvents})
	if err != nil {
		return found, err
	}
	var signIns []uuid.UUID
	found.Events = postgres.Map(rows, func(row accountdb.SignInEvent) SignInEvent {
		signIns = append(signIns, row.SignInID)
		return SignInEvent{
			At: row.At, SignIn: row.SignInID, Kind: SignInEventKind(row.Event), Limit: postgres.Value(row.LimitedBy), Until: postgres.Value(row.Until),
			Detail: row.Detail,
		}
	})
	waiting, err := a.queries.ListWaiting(ctx, slices.Compact(signIns))
	if err != nil {
		return found, err
	}
	for _, signIn := range waiting { // the newest code of a sign-in is the one whose email waits
		i := slices.IndexFunc(found.Events, func(e SignInEvent) bool { return e.SignIn == signIn && e.Kind == CodeAsked })
		if i >= 0 {
			found.Events[i].Waiting = true
		}
	}
	budget := a.addressLimit(address)
	counters, err := readCounters(ctx, a.queries, budget)
	if err != nil {
		return found, err
	}
	if next := nextOf(counters); next.After(of.Now) {
		found.NextCodeAt = next
	}
	failed, err := a.failed(ctx, budget.key[:])
	found.CodesWork = codesWork(failed)
	return found, err
}

// addressLimit returns the limit of an address, a [text.AddressKey].
func (a *Accounts) addressLimit(address string) limit {
	limits := a.limits(address, BrowserKey{}, netip.Addr{})
	return limits[len(limits)-1]
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
		of, err := queries.FindForSignIn(ctx, accountdb.FindForSignInParams{Address: address, Expected: a.pool.Expected()})
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
			Key: key[:], ID: uuid.New(), At: of.Now, Event: string(LimitsLifted), Detail: work.Actor(ctx),
		})
	})
	return postgres.Wrap("account: lift the limits of an address", err)
}
