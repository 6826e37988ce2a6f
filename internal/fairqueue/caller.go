package fairqueue

import (
	"context"
	"time"
)

// The callers that are no partner. A partner's name is its client id.
const (
	// Background is the service itself, and every context without a caller.
	Background = ""
	// Unknown is a partner's backend that has not proved yet which one it is.
	Unknown = "unknown"
	// Pages are the users' browsers.
	Pages = "pages"
	// Operator is the operator's own backend.
	Operator = "operator"
	// Console is who works in the operator's console.
	Console = "console"
)

type callerKey struct{}

// WithCaller names who asks under the context.
func WithCaller(ctx context.Context, caller string) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

// CallerOf is who asks under the context.
func CallerOf(ctx context.Context) string {
	caller, _ := ctx.Value(callerKey{}).(string)
	return caller
}

// Within is the context of a request. It names the caller, and ends after limit, not when the caller goes away. So a statement
// that runs completes, and its connection is not closed.
func Within(ctx context.Context, caller string, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(WithCaller(context.WithoutCancel(ctx), caller), limit)
}

type goneKey struct{}

// WithinWhileWanted is [Within] for a request that nobody misses: once its caller has gone away, it stops waiting for a place
// with [ErrGone]. If it has a place it goes on.
func WithinWhileWanted(ctx context.Context, caller string, limit time.Duration) (context.Context, context.CancelFunc) {
	return Within(context.WithValue(ctx, goneKey{}, ctx.Done()), caller, limit)
}

// gone is closed when the request's caller has gone away; it is nil if that does not count.
func gone(ctx context.Context) <-chan struct{} {
	done, _ := ctx.Value(goneKey{}).(<-chan struct{})
	return done
}
