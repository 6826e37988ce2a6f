// Package account owns the users, their sign-ins by one-time codes sent by email, and the sessions of the account pages.
// The rule of emails and wrong codes is in rule.go.
//
// # Terms
//
//   - A sign-in serves one purpose in one browser and has the id of that purpose: an authorization request, or the session of the account
//     pages that it starts.
//   - A code is six digits that prove access to the mailbox of an account's address.
//   - An attempt is the entry of a code, right or wrong.
//   - A link is in the same email as the code, and signs in in the browser that requested it.
//   - A budget is what emails and attempts count towards: that of an address, or that of a known browser.
//
// # Invariants
//
//   - A code works only for its own sign-in (TestSignIn4ACodeBelongsToOneSignIn), for 10 minutes (TestSignIn4TenMinutes) or until what it is for
//     ends (TestEmailSaysHowLong), and five attempts, also if the attempts are concurrent, because one statement spends them.
//     (TestSignIn4FiveAttemptsAtOnce)
//   - A new code replaces the old one. (TestTheNewestCodeIsSent) Somebody who enters an old one is told so, and spends no attempt. (TestOlderCode)
//   - Requests do not reveal whether an address has an account: with and without one the same statements run, the same rows remain, and the
//     caller gets the same result. (TestSignIn4UnknownAddress)
//   - Sending reveals nothing either: without an account it does the same work up to naming a recipient, and the page shows only what was
//     decided before that. (TestAnAddressWithoutAccountCausesTheSameWork)
//   - The log of sign-ins is the same with and without an account. No request waits for it, and none depends on it. (TestSignInLog,
//     TestSignInsDoNotNeedTheirLog)
//   - Neither code nor link is stored. Both are derived from a random seed with a key that the database does not have. (TestNoCodeIsStored)
//   - An email waits in the database until the mail server has taken it, even if the server that stored it dies. If that server dies right
//     after it has handed the email over, the email is sent twice, with the same code. (TestAnotherServerSendsTheEmail)
//   - An email is tried five times within about two minutes. Then its code neither works nor counts any more, and the page says so.
//     (TestAnEmailIsGivenUp)
//   - Notices, the emails without a code, wait in the database, too: the transaction that makes a change adds them (TestNotices). They delay no
//     code (TestNoticesDoNotDelayCodes), and are tried for a day. (TestANoticeOutlivesAnOutage, TestANoticeOutlivesRefusedSessions)
//   - Receipts say how it is when they are sent (TestReceiptsOfConnections), once after an outage (TestOneReceiptAfterAnOutage). A user who signs
//     in with a browser that is not known gets one, except at first. (TestReceiptOfANewBrowser)
//   - The emails of one network wait behind each other, not before those of other networks. (TestANetworkWaitsBehindItself)
//   - A file or batch of users is written as a whole or not at all. Users in it may exchange addresses. (TestBulkAtOnce)
//   - A session of the account pages lasts 30 minutes from its sign-in, or until the user signs out. The database holds a hash of its secret.
//     (TestSession4ThirtyMinutes)
//   - The limits of emails in an hour and in a day are exact and sliding (TestLimitIsExact), over all servers. (TestSignIn4LimitsAtOnce)
//   - Guesses at the codes of an address are bounded, with and without an account: an attempt counts as failed until a sign-in succeeds, and
//     after 100 failed ones no code of the budget works. (TestGuessesAreBounded)
//   - Wrong codes lock nobody out: the links of a budget work always. (TestCodesThatWorkNoMore)
//   - A browser in which the user has signed in before has a budget of its own. (TestAKnownBrowserHasItsOwnBudget)
//   - Strangers in a few networks cannot take the last email of an address. (TestNobodyTakesTheLastEmail)
//   - Opening a link changes nothing. A link works only for its own sign-in, so only in one browser. (TestLink)
//   - The id of a deleted user is not used again. (TestIDOfADeletedUser)
//
// The deletion of a user ends all connections and removes what is stored about the user, in one transaction. A table with rows of a user
// references the user's row with "on delete cascade", or the deletion has a statement for it. operator.TestDeleteUser searches all tables for remains.
// The audit log keeps what
// happened to the connections under the user's id, which is random: it proves when access began and ended, and only someone who knows the
// id can find the entries. The counters of codes keep a keyed hash of the address for a day, or 30 days after failed attempts.
// The log of sign-ins keeps another one for seven days.
//
// The package never logs an address or a code, and does not decide what a signed-in user may do.
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

	accountdb "connect-svc/gen/db/account"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/locale"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/text"
	"connect-svc/internal/foundation/timezone"
	"connect-svc/internal/foundation/work"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
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

	// FindConnection returns what receipts say of a connection, which belongs to another domain. Error: ErrNoLetter if there never was one.
	FindConnection func(ctx context.Context, userID, clientID uuid.UUID) (Connected, error) `kong:"-"`
	// Notices compose further emails without a code, by kind. A server sends the kinds that it knows, and leaves the others to servers that
	// know them.
	Notices map[string]Compose `kong:"-"`

	// EndConnections ends the connections of a user within the transaction that deletes the user, and returns how many it ended.
	// Connections belong to another domain. [Accounts.DeleteUser] needs it.
	EndConnections func(ctx context.Context, tx pgx.Tx, userID uuid.UUID) (int64, error) `kong:"-"`
	// EndRequests ends the undecided authorization requests of users within the transaction that changes their addresses or signs them out in a
	// browser. [Accounts.ChangeUser], [Accounts.PutUsers], [Accounts.ImportUsers], [Accounts.ForgetBrowser] and [Accounts.EndBrowser] need it.
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
		codes:    map[string]*atomic.Uint64{},
		batches:  work.NewQueue(2, 64), // each holds a database connection until it is written: the others are left to sign-ins
	}
	a.signIns = a.newSignInLog()
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
func (a *Accounts) SetDesign(look brand.Brand, texts *locale.Catalogue) {
	look.Name = cmp.Or(look.Name, brand.DefaultName)
	if texts == nil {
		texts = locale.Default()
	}
	a.design.Store(&design{look, texts})
}

// Sweep deletes what had no effect any more at that time: expired sign-ins, limits, ended sessions, browsers that were no longer known, and
// what happened to sign-ins seven days before. It also deletes notices that no server knew how to send for 30 days.
// Every server may call it at any time; once a minute is enough.
func (a *Accounts) Sweep(ctx context.Context, before time.Time) error {
	off := map[bool][]string{false: ReceiptKinds}[a.settings.Receipts]
	return postgres.Wrap("account: sweep", errors.Join(
		postgres.Sweep(ctx, a.queries.DeleteExpiredSignIns, before),
		postgres.Sweep(ctx, a.queries.DeletePastLimits, accountdb.DeletePastLimitsParams{
			EmailsBefore: before.Add(-day), FailedBefore: before.Add(-failedLifetime),
		}),
		postgres.Sweep(ctx, a.queries.DeleteExpiredSessions, before),
		postgres.Sweep(ctx, a.queries.DeletePastBrowsers, before.Add(-BrowserLifetime)),
		postgres.Sweep(ctx, a.queries.DeletePastSignInEvents, before.Add(-7*day)),
		postgres.Sweep(ctx, a.queries.DeletePastNotices, accountdb.DeletePastNoticesParams{Off: off, Before: before.Add(-noticeLifetime)}),
	))
}

// Errors of users, in addition to those of [refusal].
var (
	ErrUserExists  = errors.New("a user with this id exists")
	ErrUserDeleted = errors.New("a user with this id was deleted, and ids are not used again")
	ErrEmailTaken  = errors.New("another user has this e-mail address")
)

// User has an account.
type User struct {
	ID           uuid.UUID
	Email        string    // as registered; others with the same text.AddressKey are the same
	Timezone     string    // its canonical name; decides the user's calendar day
	RegisteredOn time.Time // midnight UTC
	CreatedAt    time.Time
	Language     string // a BCP 47 tag of the pages of the last sign-in, or empty if unknown
}

// Zone is the user's time zone, UTC if it is unknown.
func (u User) Zone() *time.Location { return timezone.Location(u.Timezone) }

func userOf(row accountdb.User) User {
	return User{
		ID: row.UserID, Email: row.Email, Timezone: row.Timezone, RegisteredOn: row.RegisteredOn, CreatedAt: row.CreatedAt,
		Language: postgres.Value(row.Language),
	}
}

// The errors of each field.
var (
	errUserID       = refusal.Field{Path: "user_id", Problem: "must be a UUID, and not the nil UUID"}
	errEmail        = refusal.Field{Path: "email", Problem: "must be an address such as name@example.com, at most 254 bytes"}
	errTimezone     = refusal.Field{Path: "timezone", Problem: "must be a name of the time zone database such as Europe/Berlin"}
	errRegisteredOn = refusal.Field{Path: "registered_on", Problem: "must be a date from 1900-01-01 to 9999-12-31"}
)

// wrong returns the errors of the fields that are not nil.
func (c UserChange) wrong() (wrong []refusal.Field) {
	if c.Email != nil && !text.IsAddress(*c.Email) {
		wrong = append(wrong, errEmail)
	}
	if c.Timezone != nil {
		if _, ok := timezone.Canonical(*c.Timezone); !ok {
			wrong = append(wrong, errTimezone)
		}
	}
	if c.RegisteredOn != nil && (c.RegisteredOn.Year() < 1900 || c.RegisteredOn.Year() > 9999) {
		wrong = append(wrong, errRegisteredOn)
	}
	return wrong
}

// GetUser returns a user by id. Error: refusal.ErrUserNotFound.
func (a *Accounts) GetUser(ctx context.Context, id uuid.UUID) (User, error) {
	row, err := a.queries.GetUser(ctx, id)
	return userOf(row), postgres.WrapNoRows("account: get user", err, refusal.ErrUserNotFound)
}

// FindUser returns a user by email address, in any case and either spelling of its domain. Error: refusal.ErrUserNotFound.
func (a *Accounts) FindUser(ctx context.Context, email string) (User, error) {
	if !text.IsAddress(email) {
		return User{}, refusal.ErrUserNotFound
	}
	id, err := a.queries.GetUserOfAddress(ctx, text.AddressKey(email))
	if err != nil {
		return User{}, postgres.WrapNoRows("account: find user", err, refusal.ErrUserNotFound)
	}
	return a.GetUser(ctx, id)
}

// ListUsers returns at most limit users after an id, ordered by id. uuid.Nil is before the first.
func (a *Accounts) ListUsers(ctx context.Context, after uuid.UUID, limit int32) ([]User, error) {
	rows, err := a.queries.ListUsers(ctx, accountdb.ListUsersParams{After: after, RowLimit: limit})
	return postgres.Map(rows, userOf), postgres.Wrap("account: list users", err)
}

// CodeOutcomes are the keys of [Counts].Codes. A code was made (sent, with or without an account of the address) or refused because of the
// limits (limited). An attempt was accepted, rejected, made after the last one (locked) or made too late (expired).
var CodeOutcomes = []string{"sent", "limited", "accepted", "rejected", "locked", "expired"}

// Counts are the operator's metrics of this process since its start.
type Counts struct {
	Codes map[string]uint64 // by outcome

	EmailsSent    uint64 // with codes
	EmailsFailed  uint64 // given up, or refused by the mail server
	NoticesSent   uint64
	NoticesFailed uint64 // given up, or refused by the mail server

	MailRefusals uint64 // sessions that the mail server refused, and failed attempts to reach it
}

// Counts returns the counts of this process up to now.
func (a *Accounts) Counts() Counts {
	counts := Counts{
		Codes:         map[string]uint64{},
		EmailsSent:    a.outbox.sent.Load(),
		EmailsFailed:  a.outbox.failed.Load(),
		NoticesSent:   a.outbox.notices.sent.Load(),
		NoticesFailed: a.outbox.notices.failed.Load(),
		MailRefusals:  a.outbox.refusals.Load(),
	}
	for outcome, count := range a.codes {
		counts.Codes[outcome] = count.Load()
	}
	return counts
}

// MailTrouble returns why this server's last session with the mail server failed, without any address. It is empty if the session
// succeeded; used is false if there was none yet.
func (a *Accounts) MailTrouble() (trouble string, used bool) {
	if last := a.outbox.trouble.Load(); last != nil {
		return *last, true
	}
	return "", false
}

// EmailsWaiting returns how many emails wait in the database or are being sent, and the age of the oldest. It includes emails without a
// recipient, of addresses without an account. It is the same on every server.
func (a *Accounts) EmailsWaiting(ctx context.Context) (waiting int, oldest time.Duration, err error) {
	row, err := a.queries.CountCodeEmails(ctx)
	return int(row.Waiting), time.Duration(row.Oldest * float64(time.Second)), err
}

// count counts the outcome of SendCode or VerifyCode: done if err is nil. Malformed codes and other failures are not counted.
func (a *Accounts) count(done string, err error) {
	var wrong *WrongCodeError
	switch {
	case err == nil:
		a.codes[done].Add(1)
	case errors.Is(err, ErrTooManyCodes):
		a.codes["limited"].Add(1)
	case errors.As(err, &wrong):
		a.codes["rejected"].Add(1)
	case errors.Is(err, ErrCodeSpent):
		a.codes["locked"].Add(1)
	case errors.Is(err, ErrCodeExpired):
		a.codes["expired"].Add(1)
	}
}
