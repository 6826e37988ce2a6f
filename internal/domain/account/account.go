package account

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	accountdb "connect-svc/gen/db/account"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/locale"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/work"
)

// Settings of an Accounts.
type Settings struct {
	// Receipts tell users what happens to their connections and accounts. Without them those that others store are deleted.
	Receipts        bool `setting:"" type:"switch" default:"on" help:"Emails to users about new and ended connections, and about sign-ins from browsers that are not known: on or off."`
	CodesPerEmail   int  `setting:"" type:"hourly limit" default:"5" name:"sign-in-codes-per-email" help:"Emails with a one-time code sent to one address per hour, and four times as many per day; 0: no limit."`
	CodesPerNetwork int  `setting:"" type:"hourly limit" default:"30" name:"sign-in-codes-per-network" help:"One-time codes requested from one network address per hour; 0: no limit."`

	Logger *slog.Logger `kong:"-"`
	Limits work.Limits  `kong:"-"` // of a statement of a batch, and of emails
	// Trace gives an attempt to send an email a span, whose end is called with whether it failed. Nil: none has one.
	Trace func(ctx context.Context, name string) (_ context.Context, end func(failed bool)) `kong:"-"`

	// The brand, the links and the texts of the emails. The defaults are the program's own name and texts.
	Brand   brand.Brand       `kong:"-"`
	BaseURL string            `kong:"-"` // such as https://connect.example.com; [Accounts.Run] needs it
	Texts   *locale.Catalogue `kong:"-"`

	// FindConnection returns what receipts say of a connection, which belongs to another domain. Error: ErrNotConnected.
	FindConnection func(ctx context.Context, userID, clientID uuid.UUID) (Connected, error) `kong:"-"`
	// Notices compose further emails without a code, by kind. A server sends the kinds that it knows, and leaves the others to servers that
	// know them.
	Notices map[string]Compose `kong:"-"`

	// EndConnections ends the connections of a user within the transaction that deletes the user, and returns how many it ended.
	// Connections belong to another domain. [Accounts.DeleteUser] needs it.
	EndConnections func(ctx context.Context, tx pgx.Tx, userID uuid.UUID) (int64, error) `kong:"-"`
	// EndRequests ends the undecided authorization requests of users within the transaction that changes their addresses.
	// [Accounts.ChangeUser], [Accounts.PutUsers] and [Accounts.ImportUsers] need it.
	EndRequests func(ctx context.Context, tx pgx.Tx, userIDs []uuid.UUID) error `kong:"-"`
}

// Accounts are the users and their sign-ins. It is safe for concurrent use.
type Accounts struct {
	pool     *postgres.Pool
	queries  *accountdb.Queries
	keys     *credential.Keyring
	settings Settings
	design   atomic.Pointer[design]
	mailer   *Mailer
	outbox   *outbox
	signIns  *signInLog
	codes    map[string]*atomic.Uint64 // by CodeOutcomes; the map never changes
	batches  *work.Queue               // of users
}

// New returns the accounts in a database. No email is sent until [Accounts.Run] is called.
func New(pool *postgres.Pool, keys *credential.Keyring, mailer *Mailer, settings Settings) *Accounts {
	settings.Limits = settings.Limits.OrDefault()
	if settings.Trace == nil {
		settings.Trace = func(ctx context.Context, _ string) (context.Context, func(bool)) { return ctx, func(bool) {} }
	}
	a := &Accounts{
		pool:     pool,
		queries:  accountdb.New(pool),
		keys:     keys,
		settings: settings,
		mailer:   mailer,
		outbox:   newOutbox(),
		signIns:  &signInLog{wake: make(chan struct{}, 1)},
		codes:    map[string]*atomic.Uint64{},
		batches:  work.NewQueue(concurrentBatches, waitingBatches),
	}
	for _, outcome := range CodeOutcomes {
		a.codes[outcome] = new(atomic.Uint64)
	}
	compose := map[string]Compose{}
	if settings.Receipts {
		for _, kind := range ReceiptKinds {
			compose[kind] = a.receipt
		}
	}
	maps.Copy(compose, settings.Notices)
	a.outbox.notices.compose, a.outbox.notices.kinds = compose, slices.Sorted(maps.Keys(compose))
	a.SetDesign(settings.Brand, settings.Texts)
	return a
}

// design is what emails contain besides the code. It can change while the service runs.
type design struct {
	brand brand.Brand
	texts *locale.Catalogue
}

// SetDesign changes the brand and the texts of the following emails. See [Settings].
func (a *Accounts) SetDesign(of brand.Brand, texts *locale.Catalogue) {
	of.Name = cmp.Or(of.Name, brand.DefaultName)
	if texts == nil {
		texts = locale.Default()
	}
	a.design.Store(&design{of, texts})
}

// Sweep deletes what had no effect any more at that time: expired sign-ins, limits, ended sessions, browsers that were no longer known, and
// what happened to sign-ins seven days before. It also deletes notices that no server knew how to send for 30 days.
// Every server may call it at any time; once a minute is enough.
func (a *Accounts) Sweep(ctx context.Context, before time.Time) error {
	_, signIns := a.queries.DeleteExpiredSignIns(ctx, before)
	_, limits := a.queries.DeletePastLimits(ctx, accountdb.DeletePastLimitsParams{
		EmailsBefore: before.Add(-day), FailedBefore: before.Add(-failedLifetime),
	})
	_, sessions := a.queries.DeleteExpiredSessions(ctx, before)
	_, browsers := a.queries.DeletePastBrowsers(ctx, before.Add(-BrowserLifetime))
	_, events := a.queries.DeletePastSignInEvents(ctx, before.Add(-logLifetime))
	off := ReceiptKinds
	if a.settings.Receipts {
		off = nil
	}
	_, notices := a.queries.DeletePastNotices(ctx, accountdb.DeletePastNoticesParams{Off: off, Before: before.Add(-noticeLifetime)})
	return postgres.Wrap("account: sweep", errors.Join(signIns, limits, sessions, browsers, events, notices))
}
