package ratelimit

import (
	"context"
	"fmt"
	"time"

	"connect-svc/internal/postgres"
)

// LeaseLifetime is when a lease ends by itself. No read may run as long.
const LeaseLifetime = 30 * time.Second

// timeLimit bounds an admission and a release each, waiting for a connection included: a partner should rather be told
// to come again than wait for a limiter that is away or overrun.
const timeLimit = TimeLimit

// TimeLimit is what bounds an admission that is made elsewhere, see [Postgres.Admitted].
const TimeLimit = 2 * time.Second

// Policy of one client. All three are 1 or more.
type Policy struct {
	RequestsPerMinute int // sustained refill of the bucket, at most 1,000,000
	Burst             int // capacity of the bucket, at most 1,000,000
	ConcurrentReads   int // leases at one time, at most 10,000
}

// Reason why a request was refused.
type Reason string

// The reasons. An admitted request has none.
const (
	ReasonRate        Reason = "rate"        // the bucket holds less than one request
	ReasonConcurrency Reason = "concurrency" // as many reads run as the policy allows
)

// Decision about one request, with the values of its answer's headers.
type Decision struct {
	Allowed bool
	Reason  Reason // empty when allowed

	Limit        int // RateLimit-Limit: requests a minute
	Remaining    int // RateLimit-Remaining: whole requests that the bucket holds after this one
	ResetSeconds int // RateLimit-Reset: until the bucket holds a request, at least 1

	// RetryAfterSeconds is the Retry-After of a refusal, at least 1, and 0 when allowed. A request that comes after it
	// finds the bucket filled, unless another one came first.
	RetryAfterSeconds int

	release func(context.Context) error
	along   *postgres.Passenger // does the same as release
}

// decide makes a Decision of what the shared state said: the outcome, whole requests left, and seconds until the next.
func decide(
	outcome string, policy Policy, remaining, reset int, release func(context.Context) error,
) (Decision, error) {
	decision := Decision{Limit: policy.RequestsPerMinute, Remaining: remaining, ResetSeconds: reset}
	switch outcome {
	case "admitted":
		decision.Allowed = true
		decision.release = release
	case string(ReasonConcurrency):
		decision.Reason = ReasonConcurrency
		decision.RetryAfterSeconds = 1 // specification section 8
	case string(ReasonRate):
		decision.Reason = ReasonRate
		decision.RetryAfterSeconds = reset
	default:
		return Decision{}, fmt.Errorf("ratelimit: admit: unknown outcome %q", outcome)
	}
	return decision, nil
}

// WithLast lets the release go along with the next query of a read to the same database, which must be its last: the
// lease ends with the rows, and Release finds nothing left to do. Where that is not possible, or the query fails, Release
// ends it.
func (d *Decision) WithLast(ctx context.Context) context.Context {
	if d.along == nil {
		return ctx
	}
	return postgres.WithPassenger(ctx, d.along)
}

// Release ends the lease of an admitted request; call it when the read is over, whatever became of it. It works under a
// context that has ended, does nothing for a refusal, and nothing the second time. An error means that the lease ends
// by itself: it is worth a log entry, no more.
func (d *Decision) Release(ctx context.Context) error {
	if d.release == nil {
		return nil
	}
	if d.along != nil && d.along.Done {
		d.release = nil
		return nil
	}
	release := d.release
	d.release = nil
	return release(context.WithoutCancel(ctx))
}
