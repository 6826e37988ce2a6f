package account

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/semaphore"

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
	free   *semaphore.Weighted

	compose map[string]Compose // by kind; it never changes
	kinds   []string           // its keys

	next   time.Time
	resume atomic.Pointer[time.Time] // none is sent before

	sent, failed atomic.Uint64
}

func newNotices() *notices {
	return &notices{pauses: noticePauses, rest: noticeRest, free: semaphore.NewWeighted(noticeSenders)}
}

type waitingNotice = accountdb.ClaimNoticeRow

// sendNotice begins to send a notice if one is due and a sender is free. Run calls it while no code is due. If none was due, it looks again
// after [pollInterval].
func (a *Accounts) sendNotice(ctx context.Context, group *sync.WaitGroup) bool {
	n, now := a.outbox.notices, time.Now()
	if resume := n.resume.Load(); now.Before(n.next) || resume != nil && now.Before(*resume) || !n.free.TryAcquire(1) {
		return false
	}
	notice, found := a.claimNotice(ctx)
	if !found {
		n.free.Release(1)
		n.next = now.Add(pollInterval)
		return false
	}
	group.Go(func() {
		defer a.outbox.signal()
		defer n.free.Release(1)
		a.deliverNotice(ctx, notice)
	})
	return true
}

// claimNotice leases the next notice that is due. If there is none, it locks and writes nothing.
func (a *Accounts) claimNotice(ctx context.Context) (notice waitingNotice, found bool) {
	ctx, cancel := context.WithTimeout(ctx, a.settings.Limits.Claim)
	defer cancel()
	due, err := a.queries.ListDueNotices(ctx, accountdb.ListDueNoticesParams{Kinds: a.outbox.notices.kinds, Most: claimable})
	for _, next := range due {
		notice, err = a.queries.ClaimNotice(ctx, accountdb.ClaimNoticeParams{
			Recipient: next.Recipient, NoticeID: next.NoticeID, Lease: a.settings.Limits.Claim + a.settings.Limits.MailSend,
		})
		if err == nil {
			return notice, true
		}
		if !errors.Is(err, pgx.ErrNoRows) { // another server leased it
			break
		}
	}
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		a.settings.Logger.Error("notices that wait could not be read", "cause", err)
	}
	return notice, false
}

// deliverNotice makes one attempt and records its outcome. If the outcome cannot be recorded, the notice is sent again when its lease ends.
func (a *Accounts) deliverNotice(ctx context.Context, notice waitingNotice) {
	limited, cancel := context.WithTimeout(ctx, a.settings.Limits.MailSend)
	defer cancel()
	err := work.Try(func() error {
		return a.settleNotice(limited, notice, work.Try(func() error { return a.attemptNotice(limited, notice) }))
	})
	if err != nil && ctx.Err() == nil {
		a.settings.Logger.Error("the outcome of a notice could not be recorded", "cause", err)
	}
}

// settleNotice records the outcome of an attempt, in a time of its own: that of the attempt may be over, or nearly so.
func (a *Accounts) settleNotice(attempt context.Context, notice waitingNotice, err error) error {
	n := a.outbox.notices
	ctx, cancel := context.WithTimeout(context.WithoutCancel(attempt), a.settings.Limits.Leave)
	defer cancel()
	switch {
	case err == nil, errors.Is(err, ErrNoLetter):
	case errors.Is(attempt.Err(), context.Canceled): // this server stops
		return a.delayNotice(ctx, notice, 0)
	case int(notice.Attempts) > len(n.pauses), isPermanent(err):
		n.failed.Add(1)
		a.settings.Logger.LogAttrs(ctx, slog.LevelError, "a notice could not be sent", append(failure(err), slog.String("kind", notice.Kind))...)
	default:
		a.settings.Logger.LogAttrs(ctx, slog.LevelWarn, "a notice could not be sent yet", append(failure(err), slog.String("kind", notice.Kind))...)
		return a.delayNotice(ctx, notice, n.pauses[notice.Attempts-1])
	}
	return a.queries.DeleteNotice(ctx, accountdb.DeleteNoticeParams{Recipient: notice.Recipient, NoticeID: notice.NoticeID})
}

// attemptNotice composes the notice and hands it to the mail server. Error: ErrNoLetter.
func (a *Accounts) attemptNotice(ctx context.Context, notice waitingNotice) (err error) {
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
