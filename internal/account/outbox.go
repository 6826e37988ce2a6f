package account

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wneessen/go-mail"
)

const (
	outboxSize = 256 // letters that wait; more than that means that the mail server does not keep up
	senders    = 4   // letters under way at one time

	sendTimeout  = 30 * time.Second // for one letter
	drainTimeout = 10 * time.Second // for what still waits when the server stops
)

// letter is a code on its way. Without a recipient it goes nowhere.
type letter struct {
	to, code, company string
}

// outbox keeps letters in memory until they are sent, so that a request neither waits for the mail server nor shows by
// its time whether there was anything to send.
type outbox struct {
	mailer *Mailer
	logger *slog.Logger
	queue  chan letter

	mu     sync.RWMutex // guards closed: a closed queue takes no letter
	closed bool

	sent, failed atomic.Uint64
}

func newOutbox(mailer *Mailer, logger *slog.Logger) *outbox {
	return &outbox{mailer: mailer, logger: logger, queue: make(chan letter, outboxSize)}
}

// put never waits. It tells whether there was room.
func (o *outbox) put(l letter) bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if o.closed {
		return false
	}
	select {
	case o.queue <- l:
		return true
	default:
		return false
	}
}

// Run sends the letters until ctx ends, then those that still wait, for 10 seconds at most. Call it once, and end ctx
// when no request can ask for another code.
func (a *Accounts) Run(ctx context.Context) { a.outbox.run(ctx) }

func (o *outbox) run(ctx context.Context) {
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var group sync.WaitGroup
	for range senders {
		group.Go(func() {
			for l := range o.queue {
				o.send(sending, l)
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

// send tries once: the code is short-lived, and its user soon asks for another.
func (o *outbox) send(ctx context.Context, l letter) {
	if l.to == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if err := o.mailer.send(ctx, l); err != nil {
		o.failed.Add(1)
		o.logger.LogAttrs(ctx, slog.LevelError, "a one-time code could not be sent", failure(err)...)
		return
	}
	o.sent.Add(1)
}

// failure describes why a letter was not sent. What the mail server said is left out, because servers like to repeat
// the address.
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
