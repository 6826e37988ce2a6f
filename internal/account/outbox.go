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

	"connect-svc/internal/panics"
)

const (
	senders    = 8           // emails that a server brings to the mail server concurrently, until it has taken the sender
	perNetwork = senders / 2 // of them, those that one network has asked for
	deliveries = 32          // emails that the mail server has taken the sender of, and has not settled

	pollInterval = time.Second // of a server that nothing wakes: for what other servers have left

	// tooLate is how old an email is that nobody sends any more: half of the code's time has gone.
	tooLate = 5 * time.Minute
)

// usualPauses are those between the attempts. After the last attempt the email is given up.
var usualPauses = []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second}

// outbox is what this server knows of the emails that wait in the database. So a request does not wait for the mail server,
// its duration does not reveal whether there is an email to send, and an email outlives the server that was asked for it.
type outbox struct {
	pauses     []time.Duration // tests replace them: the next attempt would follow before a test has looked at the one before
	wake       chan struct{}   // an email may be due, or a network may have another one sent
	delivering chan struct{}   // has deliveries places

	mu      sync.Mutex
	sending map[[32]byte]int // by network

	sent, failed atomic.Uint64

	refusals atomic.Uint64          // sessions that the mail server refused, and attempts to reach it
	trouble  atomic.Pointer[string] // why the last session failed; empty: it went well; nil: there was none
}

// noteSession notes whether the mail server took a session, up to where a recipient would be named.
func (o *outbox) noteSession(taken bool, err error) {
	trouble := ""
	if !taken {
		o.refusals.Add(1)
		for _, attr := range failure(err) {
			trouble = strings.TrimSpace(trouble + " " + attr.Value.String())
		}
	}
	o.trouble.Store(&trouble)
}

func newOutbox() *outbox {
	return &outbox{pauses: usualPauses, wake: make(chan struct{}, 1), delivering: make(chan struct{}, deliveries), sending: map[[32]byte]int{}}
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default: // there is a signal already
	}
}

// Run sends the emails that wait in the database until ctx ends, and finishes those in flight, for 10 seconds at most. What it
// leaves is sent by another server, or after the next start; where this server dies while it sends an email, as soon as the
// email's lease ends. An email that the mail server had taken by then arrives twice, with the same code.
func (a *Accounts) Run(ctx context.Context) {
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	context.AfterFunc(ctx, func() { time.AfterFunc(a.settings.Limits.Drain, stop) })
	var group sync.WaitGroup
	defer group.Wait()
	free := make(chan struct{}, senders)
	for {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return
		}
		email, found := a.claimEmail(working)
		if found {
			group.Go(func() {
				release := sync.OnceFunc(func() { <-free; a.outbox.leave([32]byte(email.Network)) })
				defer release()
				a.deliver(working, email, release)
			})
			continue
		}
		<-free
		if !a.awaitEmail(ctx) {
			return
		}
	}
}

// awaitEmail waits until an email may be due. It reports false if ctx ends before. It locks and writes nothing, so that an idle server
// does neither.
func (a *Accounts) awaitEmail(ctx context.Context) bool {
	for {
		select {
		case <-a.outbox.wake:
			return true
		case <-ctx.Done():
			return false
		case <-time.After(pollInterval):
		}
		limited, cancel := context.WithTimeout(ctx, a.settings.Limits.Claim)
		due, err := a.queries.IsEmailDue(limited)
		cancel()
		if err != nil && ctx.Err() == nil {
			a.settings.Logger.Error("emails that wait could not be read", "cause", err)
		}
		if due {
			return true
		}
	}
}

// claimEmail leases the email whose turn it is, if any is due.
func (a *Accounts) claimEmail(ctx context.Context) (email waitingEmail, found bool) {
	o := a.outbox
	busy := [][]byte{} // null would be no network at all
	o.mu.Lock()
	for network, emails := range o.sending {
		if emails >= perNetwork {
			busy = append(busy, network[:])
		}
	}
	o.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, a.settings.Limits.Claim)
	defer cancel()
	email, found, err := a.leaseEmail(ctx, busy)
	if err != nil {
		a.settings.Logger.Error("emails that wait could not be read", "cause", err)
	}
	if found {
		o.mu.Lock()
		o.sending[[32]byte(email.Network)]++
		o.mu.Unlock()
	}
	return email, found
}

func (o *outbox) leave(network [32]byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sending[network]--; o.sending[network] == 0 {
		delete(o.sending, network)
	}
	o.signal()
}

// errReplaced means that a newer code has replaced the one that was to be sent, or that its sign-in is gone.
var errReplaced = errors.New("the code is no longer the sign-in's")

// deliver makes one attempt, and settles what becomes of the email. If that cannot be recorded, the email is sent again when
// its lease is over. It calls release when another email may be brought to the mail server.
func (a *Accounts) deliver(ctx context.Context, email waitingEmail, release func()) {
	limited, cancel := context.WithTimeout(ctx, a.settings.Limits.MailSend)
	defer cancel()
	err := panics.Try(func() error { return a.attemptAndSettle(limited, email, release) })
	if err != nil && ctx.Err() == nil {
		a.settings.Logger.Error("what became of an email could not be recorded", "cause", err)
	}
}

func (a *Accounts) attemptAndSettle(ctx context.Context, email waitingEmail, release func()) error {
	pauses := a.outbox.pauses
	last := int(email.Attempts) > len(pauses)
	var err error
	if email.Late || int(email.Attempts) > len(pauses)+1 {
		last, err = true, errors.New("it has waited too long") // the servers were busy or away
	} else {
		err = panics.Try(func() error { return a.attempt(ctx, email, release) })
	}
	switch {
	case err == nil, errors.Is(err, errReplaced):
		return a.settleEmail(ctx, email)
	case ctx.Err() != nil: // this server stops, or was slow: the mail server is not to blame
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.settings.Limits.Leave)
		defer cancel()
		return a.delayEmail(ctx, email, 0)
	case last || isPermanent(err):
		a.outbox.failed.Add(1)
		a.settings.Logger.LogAttrs(ctx, slog.LevelError, "a one-time code could not be sent", failure(err)...)
		return a.giveUpEmail(ctx, email)
	}
	a.settings.Logger.LogAttrs(ctx, slog.LevelWarn, "a one-time code could not be sent yet", failure(err)...)
	return a.delayEmail(ctx, email, pauses[email.Attempts-1])
}

// attempt hands the email to the mail server. Without an account it does the same work up to naming a recipient: a mail server
// that shares the processors would reveal the account by what other requests wait for it. The page says that the email was
// sent as soon as the mail server has taken the sender. What follows depends on whether there is a recipient: so nobody waits
// for it, neither the page nor the next email.
func (a *Accounts) attempt(ctx context.Context, email waitingEmail, release func()) error {
	recipient, code, sent, err := a.codeToSend(ctx, email)
	if err != nil {
		return err
	}
	settled := func() {}
	defer func() { settled() }()
	look, taken := a.look.Load(), false
	err = a.mailer.send(ctx, codeEmail{
		to: recipient, code: code, link: a.settings.BaseURL + email.LinkPath + "/" + a.linkOf(email.SignInID, email.Seed),
		partner: email.Partner, brand: look.brand, in: look.texts.Locale(email.Language), sent: sent,
	}, func() error {
		taken = true
		if err := a.markSent(ctx, email); err != nil {
			return err
		}
		release()
		select {
		case a.outbox.delivering <- struct{}{}:
			settled = func() { <-a.outbox.delivering }
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if taken || ctx.Err() == nil { // else this server stopped, or was slow
		a.outbox.noteSession(taken, err)
	}
	if err == nil && recipient != "" {
		a.outbox.sent.Add(1)
	}
	return err
}

// isPermanent reports whether the mail server has refused for good (RFC 5321, section 4.2.1).
func isPermanent(err error) bool {
	var refusal *textproto.Error
	return errors.As(err, &refusal) && refusal.Code/100 == 5
}

var enhancedStatus = regexp.MustCompile(`^[245]\.\d{1,3}\.\d{1,3}\b`)

// failure describes why an email was not sent. It leaves out the mail server's text, which often repeats the address.
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
