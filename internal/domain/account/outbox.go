package account

import (
	"context"
	"errors"
	"log/slog"
	"net/textproto"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/semaphore"

	accountdb "connect-svc/gen/db/account"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/text"
	"connect-svc/internal/foundation/timezone"
	"connect-svc/internal/foundation/work"
)

const (
	senders    = 8           // concurrent deliveries of a server whose sender the mail server has not accepted yet
	perNetwork = senders / 2 // of them, those for one network
	deliveries = 32          // concurrent deliveries whose sender the mail server has accepted

	pollInterval = 3 * time.Second // of an idle server, for emails that other servers have left: as often as their pages look

	claimable = 16 // emails that a server asks for at a time, because others may lease the first ones

	// tooLate is the age at which an email is no longer sent: half of the code's lifetime is over.
	tooLate = 5 * time.Minute
)

// usualPauses are the pauses between attempts. After the last attempt the email is given up.
var usualPauses = []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second}

// outbox is this server's part of sending the emails that wait in the database. Since they wait there, a request does not wait for the
// mail server, its duration does not reveal whether an email is sent, and an email survives the server that stored it.
type outbox struct {
	pauses     []time.Duration // tests replace them, so that no attempt follows before the test has checked the previous one
	wake       work.Signal     // an email may be due
	idle       atomic.Bool     // no code is due that this server could send
	delivering *semaphore.Weighted

	mu     sync.Mutex
	stored map[[32]byte]int32 // by network, see place
	since  time.Time          // of the first that is in stored

	sent, failed atomic.Uint64

	notices *notices

	refusals atomic.Uint64          // sessions that the mail server refused, and failed attempts to reach it
	trouble  atomic.Pointer[string] // why the last session failed, empty if it succeeded, nil if there was none
}

// recordSession records whether the mail server accepted a session, up to the point where a recipient would be named.
func (o *outbox) recordSession(taken bool, err error) {
	trouble := ""
	if !taken {
		o.refusals.Add(1)
		trouble = troubleOf(err)
	}
	o.trouble.Store(&trouble)
}

// troubleOf says in a line why a session failed, without the mail server's text.
func troubleOf(err error) (trouble string) {
	for _, attr := range failure(err) {
		trouble = strings.TrimSpace(trouble + " " + attr.Value.String())
	}
	return trouble
}

// CheckMailServer opens a session with the mail server, sends nothing, and ends it. [Accounts.MailTrouble] knows its outcome. The error
// does not have the mail server's text.
func (a *Accounts) CheckMailServer(ctx context.Context) error {
	_, err := a.mailer.Check(ctx)
	trouble := ""
	if err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		trouble = troubleOf(err)
		err = errors.New(trouble)
	}
	a.outbox.trouble.Store(&trouble)
	return err
}

func newOutbox() *outbox {
	return &outbox{pauses: usualPauses, wake: make(work.Signal, 1), delivering: semaphore.NewWeighted(deliveries),
		notices: &notices{pauses: noticePauses, rest: noticeRest, wake: make(work.Signal, 1)}}
}

// place counts an email that this server stores, and returns how many of the same network it has stored before. It begins anew after tooLate,
// because no email waits for longer.
func (o *outbox) place(network [32]byte) int32 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.since) > tooLate {
		o.since, o.stored = time.Now(), map[[32]byte]int32{}
	}
	o.stored[network]++
	return o.stored[network] - 1
}

// Run sends the emails that wait in the database until ctx ends, notices while no code is due. Then it finishes those in flight, for 10 seconds
// at most. Another server, or the next start, sends the rest. If this server dies while it sends an email, another one sends it when its
// lease ends. If the mail server had accepted it by then, it arrives twice, with the same code.
func (a *Accounts) Run(ctx context.Context) {
	defer a.signIns.Flush(ctx) // what the last emails added
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { work.Restart(ctx, a.settings.Logger, "the log of sign-ins", a.signIns.Run) })
	group.Go(func() { work.Restart(ctx, a.settings.Logger, "notices", a.notices().Run) })
	a.codeEmails().Run(ctx)
}

func (a *Accounts) codeEmails() *work.Leases[[32]byte, waitingEmail] {
	limits := a.settings.Limits
	return &work.Leases[[32]byte, waitingEmail]{
		Name: "an email with a code", Logger: a.settings.Logger, Wake: a.outbox.wake, Most: senders, Idle: pollInterval,
		Line:  func(email waitingEmail) (network [32]byte, parallel int) { return [32]byte(email.Network), perNetwork },
		Claim: a.claimCode, Attempt: a.attempt, Record: a.record,
		ClaimLimit: limits.Claim, AttemptLimit: limits.MailSend, RecordLimit: limits.Leave, StopLimit: limits.Drain,
	}
}

// waitingEmail is an email that this server has leased. seed identifies the code of the sign-in, limits are the keys that counted it,
// attempts start at 1, and late means that it is too old to be sent.
type waitingEmail = accountdb.ClaimCodeEmailRow

// claimCode leases the next email with a code that is due, of a network that is not busy. If there is none it locks and writes nothing.
func (a *Accounts) claimCode(ctx context.Context, room map[[32]byte]int, limit int) (emails []waitingEmail, due bool, err error) {
	if limit == 0 {
		a.outbox.idle.Store(false)
		return nil, false, nil
	}
	busy := [][]byte{} // not nil: null would exclude every network
	for network, free := range room {
		if free == 0 {
			busy = append(busy, network[:])
		}
	}
	signIns, err := a.queries.ListDueEmails(ctx, accountdb.ListDueEmailsParams{Busy: busy, Most: claimable})
	if err != nil {
		return nil, false, err
	}
	lease := a.codeEmails().Lease()
	emails, due, err = leaseFirst(signIns, func(signIn uuid.UUID) (waitingEmail, error) {
		return a.queries.ClaimCodeEmail(ctx, accountdb.ClaimCodeEmailParams{SignInID: signIn, Lease: lease, TooLate: lease + tooLate})
	})
	idle := !due && err == nil
	a.outbox.idle.Store(idle)
	if idle {
		a.outbox.notices.wake.Send()
	}
	return emails, due, err
}

// leaseFirst leases the first of some emails that no other server has leased meanwhile.
func leaseFirst[Key, Email any](keys []Key, lease func(Key) (Email, error)) (emails []Email, due bool, err error) {
	for _, key := range keys {
		email, err := lease(key)
		if err == nil {
			return []Email{email}, true, nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return nil, false, err
		}
	}
	return nil, false, nil
}

// errReplaced means that a newer code has replaced this one, or that its sign-in is gone.
var errReplaced = errors.New("the code is no longer the sign-in's")

// errTooLate means that the servers were busy or down for too long.
var errTooLate = errors.New("it has waited too long")

// record records the outcome of an attempt.
func (a *Accounts) record(ctx context.Context, email waitingEmail, err, over error) error {
	pauses := a.outbox.pauses
	switch {
	case err == nil, errors.Is(err, errReplaced):
	case over != nil: // this server stops, or was slow: not a failure of the mail server
		return a.delayEmail(ctx, email, 0)
	case int(email.Attempts) > len(pauses), errors.Is(err, errTooLate), isPermanent(err):
		a.outbox.failed.Add(1)
		a.logEmail(email, emailFailed, answerOf(err))
		a.settings.Logger.LogAttrs(ctx, slog.LevelError, "a one-time code could not be sent", failure(err)...)
		if err := a.giveUpEmail(ctx, email); err != nil {
			return err
		}
	default:
		a.logEmail(email, emailDelayed, answerOf(err))
		a.settings.Logger.LogAttrs(ctx, slog.LevelWarn, "a one-time code could not be sent yet", failure(err)...)
		return a.delayEmail(ctx, email, pauses[email.Attempts-1])
	}
	return a.queries.DeleteCodeEmail(ctx, accountdb.DeleteCodeEmailParams{SignInID: email.SignInID, Seed: email.Seed})
}

// attempt hands the email to the mail server. Without an account it does the same work up to naming a recipient: a mail server on the
// same processors would otherwise reveal the account by slowing down other requests. The page says that the email was sent as soon as
// the mail server has accepted the sender. The rest depends on whether there is a recipient, so neither the page nor the next email
// waits for it.
func (a *Accounts) attempt(ctx context.Context, email waitingEmail, release func()) (err error) {
	if email.Late || int(email.Attempts) > len(a.outbox.pauses)+1 {
		return errTooLate
	}
	ctx, end := a.settings.Trace(ctx, "sendEmail")
	defer func() { end(err != nil) }()
	sending, err := a.codeToSend(ctx, email)
	if err != nil {
		return err
	}
	settled := func() {}
	defer func() { settled() }()
	design, accepted := a.design.Load(), false
	sending.link = a.settings.BaseURL + email.LinkPath + "/" + a.linkOf(email.SignInID, email.Seed)
	sending.browser, sending.partner, sending.brand, sending.in = email.Browser, email.Partner, design.brand, design.texts.Locale(email.Language)
	message, err := sending.email()
	if err != nil {
		return err
	}
	answer, err := a.mailer.send(ctx, message, func() error {
		accepted = true
		marked, err := a.queries.MarkCodeSent(ctx, accountdb.MarkCodeSentParams{SignInID: email.SignInID, Seed: email.Seed})
		if err != nil {
			return err
		}
		if marked == 0 {
			return errReplaced
		}
		release()
		if err := a.outbox.delivering.Acquire(ctx, 1); err != nil {
			return err
		}
		settled = func() { a.outbox.delivering.Release(1) }
		return nil
	})
	if accepted || ctx.Err() == nil { // otherwise this server stopped, or was slow
		a.outbox.recordSession(accepted, err)
	}
	switch {
	case err == nil && sending.to == "":
		a.logEmail(email, noAccount, "")
	case err == nil:
		a.outbox.sent.Add(1)
		a.logEmail(email, emailSent, answer)
	}
	return err
}

// codeToSend returns the email without its link. It has a recipient if the address has an account, and a code if codes work. Error:
// errReplaced.
func (a *Accounts) codeToSend(ctx context.Context, email waitingEmail) (sending codeEmail, err error) {
	signIn, err := a.queries.GetCodeToSend(ctx, accountdb.GetCodeToSendParams{SignInID: email.SignInID, Seed: email.Seed})
	if err != nil {
		return sending, postgres.NoRowsAs(err, errReplaced)
	}
	account, err := a.queries.FindForSignIn(ctx, accountdb.FindForSignInParams{Address: text.AddressKey(signIn.Email)})
	if err != nil {
		return sending, err
	}
	sending.sent, sending.valid = email.CountedAt, signIn.ExpiresAt.Sub(email.CountedAt)
	if account.UserID != nil && signIn.UserID != nil && *account.UserID == *signIn.UserID {
		sending.to = *account.Email
	}
	if name, err := a.queries.GetTimezone(ctx, postgres.Value(account.UserID)); err == nil { // the same statement without an account
		sending.zone = timezone.Location(name)
	}
	failed, err := a.failed(ctx, signIn.Budget)
	if codesWork(failed) {
		sending.code = a.codeOf(email.SignInID, email.Seed)
	}
	return sending, err
}

// delayEmail ends the lease and sets the next attempt.
func (a *Accounts) delayEmail(ctx context.Context, email waitingEmail, delay time.Duration) error {
	err := a.queries.DelayCodeEmail(ctx, accountdb.DelayCodeEmailParams{
		SignInID: email.SignInID, Seed: email.Seed, Attempts: email.Attempts, Delay: delay,
	})
	if err == nil {
		time.AfterFunc(delay, a.outbox.wake.Send)
	}
	return err
}

// giveUpEmail ends the code of an email that was not sent, unless the page has said that it was sent: the page now says that it failed,
// and the code neither works nor counts any more. The rows are locked in the order of storeCode.
func (a *Accounts) giveUpEmail(ctx context.Context, email waitingEmail) error {
	err := postgres.InTx(ctx, a.pool, func(tx pgx.Tx) error {
		queries := a.queries.WithTx(tx)
		for _, key := range email.Limits {
			if err := queries.UncountEmail(ctx, accountdb.UncountEmailParams{Key: key, At: email.CountedAt}); err != nil {
				return err
			}
		}
		marked, err := queries.MarkCodeFailed(ctx, accountdb.MarkCodeFailedParams{SignInID: email.SignInID, Seed: email.Seed})
		if err == nil && marked == 0 {
			return errReplaced // or the page has said that it was sent: nothing changes
		}
		return err
	})
	if errors.Is(err, errReplaced) {
		return nil
	}
	return err
}

// isPermanent reports whether the mail server refused permanently (RFC 5321, section 4.2.1).
func isPermanent(err error) bool {
	var refusal *textproto.Error
	return errors.As(err, &refusal) && refusal.Code/100 == 5
}

var enhancedStatus = regexp.MustCompile(`^[245]\.\d{1,3}\.\d{1,3}\b`)

// failure describes why an email was not sent, without the mail server's text, which often repeats the address.
func failure(err error) []slog.Attr {
	var refusal *textproto.Error
	if !errors.As(err, &refusal) {
		return []slog.Attr{slog.String("cause", err.Error())}
	}
	cause := "the mail server refused the session"
	if step := new(stepError); errors.As(err, &step) {
		cause = "the mail server refused " + step.command
	}
	return []slog.Attr{
		slog.String("cause", cause),
		slog.Int("smtp_code", refusal.Code),
		slog.String("smtp_status", enhancedStatus.FindString(refusal.Msg)),
	}
}
