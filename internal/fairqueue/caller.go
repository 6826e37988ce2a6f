package fairqueue

import (
	"context"
	"time"
)

// Kind is a group of callers. Kinds have turns, and the callers of a kind have turns among themselves, so that no number of
// callers of one kind delays another kind.
type Kind uint8

// The kinds of callers, and what names a caller of each.
const (
	// Background is the service itself, and every context without a caller.
	Background Kind = iota
	// Partners are partners' backends that hold a credential of this service, each by its client id.
	Partners
	// Proofs are the questions whether credentials are right, of all who have not proved yet who they are.
	Proofs
	// Users are browsers in which somebody has signed in, by the user.
	Users
	// Strangers are all other browsers, by their networks.
	Strangers
	// Codes are strangers, too: those that ask for a code just now, which is the most that they can ask for.
	Codes
	// Operator is the operator's own backend.
	Operator
	// Console is who works in the operator's console.
	Console
)

// Caller is who asks. Callers that are equal wait in one line.
type Caller struct {
	Kind Kind
	Name string // among its kind; may be empty
}

type callerKey struct{}

// WithCaller names who asks under the context.
func WithCaller(ctx context.Context, caller Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

// CallerOf is who asks under the context.
func CallerOf(ctx context.Context) Caller {
	caller, _ := ctx.Value(callerKey{}).(Caller)
	return caller
}

type latestKey struct{}

// Within is the context of a request. It names the caller, and ends after limit, not when the caller goes away. So a statement
// that runs completes, and its connection is not closed. The request waits for a turn for nine tenths of its limit, see
// [ErrLate].
func Within(ctx context.Context, caller Caller, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx = context.WithValue(WithCaller(context.WithoutCancel(ctx), caller), latestKey{}, time.Now().Add(limit/10*9))
	return context.WithTimeout(ctx, limit)
}

// latest is until when the request may wait for its turns; ok is false if nobody has said.
func latest(ctx context.Context) (at time.Time, ok bool) {
	at, ok = ctx.Value(latestKey{}).(time.Time)
	return at, ok
}

type goneKey struct{}

// WithinWhileWanted is [Within] for a request that nobody misses: once its caller has gone away, it stops waiting for a place
// with [ErrGone]. If it has a place it goes on.
func WithinWhileWanted(ctx context.Context, caller Caller, limit time.Duration) (context.Context, context.CancelFunc) {
	return Within(context.WithValue(ctx, goneKey{}, ctx.Done()), caller, limit)
}

// gone is closed when the request's caller has gone away; it is nil if that does not count.
func gone(ctx context.Context) <-chan struct{} {
	done, _ := ctx.Value(goneKey{}).(<-chan struct{})
	return done
}
