package account

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	accountdb "connect-svc/gen/db/account"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/work"
)

const (
	// noticeSenders are the concurrent deliveries of notices by a server. Codes have senders of their own.
	noticeSenders = 2
	// noticeRest is how long a server sends no notice after the mail server refused a session, so that a thousand notices are not a
	// thousand attempts to reach a mail server that is away.
	noticeRest = 10 * time.Second
	// noticeLifetime is how long a notice waits that no server knows how to compose.
	noticeLifetime = 30 * day
)

// noticePauses are the pauses between attempts, a day in all. After the last attempt the notice is given up.
var noticePauses = []time.Duration{
	time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour, 8 * time.Hour,
}

// Notice is an email without a code that waits until the mail server has taken it. It contains neither an address nor a secret.
type Notice struct {
	Recipient uuid.UUID // a user or a client
	Kind      string
	Data      []byte // JSON
	PutAt     time.Time
}

// Compose returns the letter of a notice when it is sent, with the address and the language of its recipient. Error: ErrNoLetter.
type Compose func(ctx context.Context, notice Notice) (Letter, error)

// ErrNoLetter drops a notice: the recipient is gone or has no address, or what the notice is about has changed.
var ErrNoLetter = errors.New("there is nothing to send")

// addNotice adds a notice within the transaction that makes the change which it is about. data is encoded as JSON.
func addNotice(ctx context.Context, tx pgx.Tx, recipient uuid.UUID, kind string, data any) error {
	encoded, err := json.Marshal(data)
	if err != nil {
		return postgres.Wrap("account: add a notice", err)
	}
	err = accountdb.New(tx).AddNotice(ctx, accountdb.AddNoticeParams{Recipient: recipient, Kind: kind, Data: encoded})
	return postgres.Wrap("account: add a notice", err)
}

// notices is this server's part of sending the notices that wait in the database.
type notices struct {
	pauses []time.Duration // tests replace these two
	rest   time.Duration
	wake   work.Signal

	compose map[string]Compose // by kind; it never changes
	kinds   []string           // its keys

	resume atomic.Pointer[time.Time] // none is sent before
	newest bool                      // of the next claim; one claim runs at a time

	sent, failed atomic.Uint64
}

type waitingNotice = accountdb.ClaimNoticeRow

func (a *Accounts) notices() *work.Leases[struct{}, waitingNotice] {
	limits := a.settings.Limits
	return &work.Leases[struct{}, waitingNotice]{
		// Each look for codes that finds none wakes it, and nothing else has to: so an idle server needs one connection, not two at the same time.
		Name: "a notice", Logger: a.settings.Logger, Wake: a.outbox.notices.wake, Most: noticeSenders, Idle: time.Hour,
		Line:  func(waitingNotice) (all struct{}, parallel int) { return all, noticeSenders },
		Claim: a.claimNotice, Attempt: a.attemptNotice, Record: a.recordNotice,
		ClaimLimit: limits.Claim, AttemptLimit: limits.MailSend, RecordLimit: limits.Leave, StopLimit: limits.Drain,
	}
}

// claimNotice leases the next notice that is due, while no code is due: in turn the one that became due first and the one that became due last. So
// a receipt that a user waits for does not wait behind the million of a partner that was offboarded. If there is none, it locks and writes nothing.
func (a *Accounts) claimNotice(ctx context.Context, _ map[struct{}]int, limit int) (notices []waitingNotice, due bool, err error) {
	n := a.outbox.notices
	if resume := n.resume.Load(); limit == 0 || !a.outbox.idle.Load() || resume != nil && time.Now().Before(*resume) {
		return nil, false, nil
	}
	keys, err := a.queries.ListDueNotices(ctx, accountdb.ListDueNoticesParams{Kinds: n.kinds, Newest: n.newest, Most: claimable})
	n.newest = !n.newest
	if err != nil {
		return nil, false, err
	}
	return leaseFirst(keys, func(key accountdb.ListDueNoticesRow) (waitingNotice, error) {
		return a.queries.ClaimNotice(ctx, accountdb.ClaimNoticeParams{
			Recipient: key.Recipient, NoticeID: key.NoticeID, Lease: a.notices().Lease(),
		})
	})
}

// recordNotice records the outcome of an attempt. A mail server that refuses the login or the sender says nothing about the notice, which waits.
func (a *Accounts) recordNotice(ctx context.Context, notice waitingNotice, err, over error) error {
	n, step := a.outbox.notices, new(stepError)
	switch {
	case err == nil, errors.Is(err, ErrNoLetter):
	case errors.Is(over, context.Canceled): // this server stops
		return a.delayNotice(ctx, notice, 0)
	case int(notice.Attempts) > len(n.pauses), isPermanent(err) && errors.As(err, &step) && step.command != "MAIL FROM":
		n.failed.Add(1)
		a.settings.Logger.LogAttrs(ctx, slog.LevelError, "a notice could not be sent", append(failure(err), slog.String("kind", notice.Kind))...)
	default:
		a.settings.Logger.LogAttrs(ctx, slog.LevelWarn, "a notice could not be sent yet", append(failure(err), slog.String("kind", notice.Kind))...)
		return a.delayNotice(ctx, notice, n.pauses[notice.Attempts-1])
	}
	return a.queries.DeleteNotice(ctx, accountdb.DeleteNoticeParams{Recipient: notice.Recipient, NoticeID: notice.NoticeID})
}

// attemptNotice composes the notice and hands it to the mail server. Error: ErrNoLetter.
func (a *Accounts) attemptNotice(ctx context.Context, notice waitingNotice, _ func()) (err error) {
	n := a.outbox.notices
	if int(notice.Attempts) > len(n.pauses)+1 { // servers have died in the attempts before
		return errTooLate
	}
	letter, err := n.compose[notice.Kind](ctx, Notice{notice.Recipient, notice.Kind, notice.Data, notice.PutAt})
	if err != nil {
		return err
	}
	ctx, end := a.settings.Trace(ctx, "sendNotice")
	defer func() { end(err != nil) }()
	message, err := letter.email(a.design.Load().brand)
	if err != nil {
		return err
	}
	accepted := false
	_, err = a.mailer.send(ctx, message, func() error { accepted = true; return nil })
	if accepted || ctx.Err() == nil {
		a.outbox.recordSession(accepted, err)
	}
	switch {
	case err == nil:
		n.sent.Add(1)
	case !accepted:
		resume := time.Now().Add(n.rest)
		n.resume.Store(&resume)
	}
	return err
}

// delayNotice ends the lease and sets the next attempt.
func (a *Accounts) delayNotice(ctx context.Context, notice waitingNotice, delay time.Duration) error {
	return a.queries.DelayNotice(ctx, accountdb.DelayNoticeParams{
		Recipient: notice.Recipient, NoticeID: notice.NoticeID, Attempts: notice.Attempts, Delay: delay,
	})
}

// NoticesWaiting returns how many notices wait in the database or are being sent, and the age of the oldest. It is the same on every server.
func (a *Accounts) NoticesWaiting(ctx context.Context) (waiting int, oldest time.Duration, err error) {
	row, err := a.queries.CountNotices(ctx)
	return int(row.Waiting), time.Duration(row.Oldest * float64(time.Second)), err
}
