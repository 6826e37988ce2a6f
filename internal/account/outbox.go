package account

import (
	"context"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wneessen/go-mail"
)

const (
	outboxSize = 4096 // emails that wait; a full outbox means that the mail server does not keep up
	senders    = 4    // emails that are sent concurrently

	maxDelay     = time.Second      // until an email leaves
	sendTimeout  = 30 * time.Second // of one email
	drainTimeout = 10 * time.Second // of all emails that wait when the server stops
)

// outbox keeps emails in memory until they are sent. So a request does not wait for the mail server, and its duration
// does not reveal whether there was an email to send.
type outbox struct {
	mailer *Mailer
	logger *slog.Logger
	queue  chan codeEmail

	mu     sync.RWMutex // guards closed: nothing may be put into a closed queue
	closed bool

	sent, failed atomic.Uint64
}

func newOutbox(mailer *Mailer, logger *slog.Logger) *outbox {
	return &outbox{mailer: mailer, logger: logger, queue: make(chan codeEmail, outboxSize)}
}

// put never waits. It reports whether there was room. An email leaves at a random instant within a second, so that it is not
// the requests that follow which share the processors with a mail server nearby.
func (o *outbox) put(email codeEmail) bool {
	email.due = time.Now().Add(mathrand.N(maxDelay))
	o.mu.RLock()
	defer o.mu.RUnlock()
	if o.closed {
		return false
	}
	select {
	case o.queue <- email:
		return true
	default:
		return false
	}
}

// Run sends emails until ctx ends, and then those that still wait, for 10 seconds at most. Call it once, and end ctx when
// no request can ask for another code.
func (a *Accounts) Run(ctx context.Context) { a.outbox.run(ctx) }

func (o *outbox) run(ctx context.Context) {
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var group sync.WaitGroup
	for range senders {
		group.Go(func() {
			for email := range o.queue {
				select {
				case <-time.After(time.Until(email.due)):
				case <-ctx.Done(): // what waits at a stop leaves at once
				}
				o.send(sending, email)
			}
		})
	}
	<-ctx.Done()
	defer time.AfterFunc(drainTimeout, stop).Stop()
	o.close()
	group.Wait()
}

func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	close(o.queue)
}

// send makes one attempt: the code is short-lived, and its user soon asks for another. Without an account it makes none,
// with the same work: a mail server that shares the processors would reveal the account by what other requests wait for it.
func (o *outbox) send(ctx context.Context, email codeEmail) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if email.to == "" {
		_ = o.mailer.rehearse(ctx, email) // a mail server that is away fails those who have an account, too
		return
	}
	if err := o.mailer.send(ctx, email); err != nil {
		o.failed.Add(1)
		o.logger.LogAttrs(ctx, slog.LevelError, "a one-time code could not be sent", failure(err)...)
		return
	}
	o.sent.Add(1)
}

// failure describes why an email was not sent. It leaves out the mail server's text, which often repeats the address.
func failure(err error) []slog.Attr {
	var refusal *mail.SendError
	if !errors.As(err, &refusal) {
		return []slog.Attr{slog.String("cause", err.Error())} // no connection: the recipient was not named yet
	}
	return []slog.Attr{
		slog.String("cause", refusal.Reason.String()),
		slog.Int("smtp_code", refusal.ErrorCode()),
		slog.String("smtp_status", refusal.EnhancedStatusCode()),
	}
}
