package work

import (
	"context"
	"time"
)

// Kind is a group of callers. A queue serves the kinds in rotation, and the callers of a kind in rotation, so that any number of
// callers of one kind cannot delay another kind.
type Kind uint8

// The kinds of callers, and what names a caller within its kind.
const (
	// Background is the service itself. It is the kind of every context without a caller.
	Background Kind = iota
	// Partners are partners' backends that hold a credential of this service, by client id.
	Partners
	// Proofs are questions whether a credential is right, of all callers who have not yet proved who they are.
	Proofs
	// Users are browsers in which a user has signed in, by user id.
	Users
	// Strangers are all other browsers, by network.
	Strangers
	// Codes are strangers that are asking for a one-time code, which is the most expensive act that is open to a stranger.
	Codes
	// Operator is the operator's backend.
	Operator
	// Console is the people who work in the operator's console.
	Console
	// Engineers are the people who work on their partner's own pages, by network.
	Engineers
)

// Caller identifies who asks. Equal callers wait behind each other.
type Caller struct {
	Kind Kind
	Name string // within its kind; may be empty
}

type callerKey struct{}

// WithCaller returns a context whose work is done for the caller.
func WithCaller(ctx context.Context, caller Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

// CallerOf returns the caller of the context.
func CallerOf(ctx context.Context) Caller {
	caller, _ := ctx.Value(callerKey{}).(Caller)
	return caller
}

type latestKey struct{}

// Within returns the context of a request. It names the caller, and ends after limit, not when the caller goes away: a running
// statement completes, and its connection is not closed. The request waits for places for nine tenths of its limit, see
// [ErrLate].
func Within(ctx context.Context, caller Caller, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx = context.WithValue(WithCaller(context.WithoutCancel(ctx), caller), latestKey{}, time.Now().Add(limit/10*9))
	return context.WithTimeout(ctx, limit)
}

// latest returns until when the request may wait for places; ok is false if there is no such limit.
func latest(ctx context.Context) (at time.Time, ok bool) {
	at, ok = ctx.Value(latestKey{}).(time.Time)
	return at, ok
}

type goneKey struct{}

// WithinWhileWanted is [Within] for a request that may be dropped: once its caller has gone away, it stops waiting for a place
// with [ErrGone]. If it already has a place, it goes on.
func WithinWhileWanted(ctx context.Context, caller Caller, limit time.Duration) (context.Context, context.CancelFunc) {
	return Within(context.WithValue(ctx, goneKey{}, ctx.Done()), caller, limit)
}

// gone returns a channel that is closed once the caller of the request has gone away, or nil if that does not matter.
func gone(ctx context.Context) <-chan struct{} {
	done, _ := ctx.Value(goneKey{}).(<-chan struct{})
	return done
}
