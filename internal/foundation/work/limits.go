package work

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"time"
)

// Limits bound parts of the service. The zero value stands for [DefaultLimits], see [Limits.OrDefault].
type Limits struct {
	// Reads of the partner API are answered within 2 s, everything else within 5 s, and the operator's batches within 30 s
	// (decisions, section 5). The rest of that time is for cancelling a statement and writing the response.
	Read  time.Duration
	Act   time.Duration
	Batch time.Duration

	// Head bounds a TLS handshake and the head of a request, and Request a request with its body. Then the connection is closed.
	Head    time.Duration
	Request time.Duration
	// Body is how long a large body waits for memory. Then the answer is 503, and the body is not read. The rest of
	// Request is for sending the body.
	Body time.Duration

	// Statement bounds a statement of PostgreSQL, unless its transaction sets another limit. It ends a statement that hangs, or waits
	// for a lock, before the limit of its request.
	Statement time.Duration
	// Overdue is how long the answer to a statement is awaited after its caller has gone, so that its connection can be used again. It exceeds
	// Statement. Then the connection is closed, as soon as the database answers on a new one.
	Overdue time.Duration
	// IdleTransaction bounds the pause between two statements of a transaction. It frees the locks of a server that vanished.
	IdleTransaction time.Duration
	// Recognize is how long a malformed request waits until its client is known, for the log only.
	Recognize time.Duration
	// Limiter bounds one request to the store of the rate limiter. Then the read is 503 (decisions, section 5).
	Limiter time.Duration
	// Replica is how long a read waits for a read replica before it asks the primary. ReplicaCheck bounds a check of all replicas: a
	// replica that has not answered by then is left out.
	Replica      time.Duration
	ReplicaCheck time.Duration
	// ReplicaLag is the maximum age of the rows of a replica.
	ReplicaLag time.Duration

	// Mail is how long a page waits for the email with a code to be sent, before it says that the email has not been sent yet. The
	// email is sent at a random instant within MailDelay.
	Mail      time.Duration
	MailDelay time.Duration

	// These bound work in the background: leasing work and ending leases (Claim), a request to a receiver of webhooks with its
	// response (Webhook), and an attempt to send an email with its statements, which is twice the limit of the session with the mail
	// server (MailSend).
	Claim    time.Duration
	Webhook  time.Duration
	MailSend time.Duration

	// Flush bounds a write of a [Buffer].
	Flush time.Duration

	// A server that stops finishes running requests, and emails that are being sent, within Drain. Its last writes may take Leave. The
	// process ends within Stop in all.
	Drain time.Duration
	Leave time.Duration
	Stop  time.Duration

	// Check bounds each check of `connect-svc check`, Database the stop of an embedded PostgreSQL before it is killed, and Partner the
	// answers to the demo's example partner.
	Check    time.Duration
	Database time.Duration
	Partner  time.Duration

	// Count bounds counting the connections of one client. Then the count is not exact.
	Count time.Duration
	// Search bounds the search for entries of a page of the audit log. Then the page says how far the search came.
	Search time.Duration
	// Settle is how long a list of the audit log, oldest first, waits for transactions that may still add earlier entries. Then the
	// list ends before those entries.
	Settle time.Duration

	// These bound the private listener's requests to the database: whether the server is ready, the other servers and their alerts
	// (Probe), the facts of the service, each of which may be missing (Facts), and metrics (Scrape).
	Probe  time.Duration
	Facts  time.Duration
	Scrape time.Duration
}

// DefaultLimits is what the service runs with.
var DefaultLimits = Limits{
	Read:  1500 * time.Millisecond,
	Act:   4400 * time.Millisecond,
	Batch: 28 * time.Second,

	Head:    5 * time.Second,
	Request: 15 * time.Second,
	Body:    5 * time.Second,

	Statement:       4 * time.Second,
	Overdue:         5 * time.Second,
	IdleTransaction: 30 * time.Second,

	Recognize:    time.Second,
	Limiter:      2 * time.Second,
	Replica:      800 * time.Millisecond,
	ReplicaCheck: time.Second,
	ReplicaLag:   5 * time.Second,

	Mail:      2 * time.Second,
	MailDelay: time.Second,

	Claim:    4 * time.Second,
	Webhook:  5 * time.Second,
	MailSend: 40 * time.Second,

	Flush: 5 * time.Second,

	Drain: 10 * time.Second,
	Leave: time.Second,
	Stop:  14 * time.Second,

	Check:    10 * time.Second,
	Database: 10 * time.Second,
	Partner:  10 * time.Second, // a person is waiting

	Count:  2 * time.Second,
	Search: 60 * time.Millisecond,
	Settle: 250 * time.Millisecond,

	Probe:  2 * time.Second,
	Facts:  3 * time.Second,
	Scrape: 4 * time.Second,
}

// OrDefault returns the limits, or [DefaultLimits] for the zero value.
func (l Limits) OrDefault() Limits {
	if l == (Limits{}) {
		return DefaultLimits
	}
	return l
}

// Pause waits for d. It reports false if ctx has ended.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return ctx.Err() == nil
}

// Every calls act at each interval until ctx ends.
func Every(ctx context.Context, interval time.Duration, act func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			act()
		}
	}
}

// restartPause is the pause before work that panicked starts again.
const restartPause = time.Second

// Panic is the error of a panic.
type Panic struct {
	value any
	stack string
}

// Error implements error. It has a line for each function on the stack.
func (p *Panic) Error() string { return fmt.Sprintf("panic: %v\n%s", p.value, p.stack) }

// NewPanic makes an error of what recover returned. Call it in the deferred function that recovers.
func NewPanic(value any) *Panic {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	var stack strings.Builder
	for {
		frame, more := frames.Next()
		fmt.Fprintf(&stack, "%s %s:%d\n", frame.Function, frame.File, frame.Line)
		if !more {
			return &Panic{value, stack.String()}
		}
	}
}

// Try calls act and returns its error, or a *[Panic] if it panics.
func Try(act func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = NewPanic(value)
		}
	}()
	return act()
}

// Restart runs work, which returns when ctx ends. If work panics, Restart logs the panic and runs work again after a second.
func Restart(ctx context.Context, logger *slog.Logger, name string, work func(context.Context)) {
	for {
		err := Try(func() error { work(ctx); return nil })
		if err == nil {
			return
		}
		logger.Error("background work panicked", "work", name, "cause", err)
		if !Pause(ctx, restartPause) {
			return
		}
	}
}
