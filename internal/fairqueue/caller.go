package fairqueue

import (
	"context"
	"time"
)

// The callers that are no partner. A partner's name is its client id.
const (
	// Background is the service itself: whoever does not say who it is.
	Background = ""
	// Unknown is a partner's backend that has not proved yet which one it is.
	Unknown = "unknown"
	// Pages are the users' browsers.
	Pages = "pages"
	// Operator is the operator's own backend.
	Operator = "operator"
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

// Within is the context of a request: it names the caller and ends after limit, and not before, when the caller goes
// away. So what has begun is brought to an end, and a statement that runs does not cost its connection.
func Within(ctx context.Context, caller string, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(WithCaller(context.WithoutCancel(ctx), caller), limit)
}

type goneKey struct{}

// WithinWhileWanted is [Within] for a request that changes nothing but by the way: once its caller has gone, [ErrGone] ends
// its waiting for a place. What has a place goes on.
func WithinWhileWanted(ctx context.Context, caller string, limit time.Duration) (context.Context, context.CancelFunc) {
	return Within(context.WithValue(ctx, goneKey{}, ctx.Done()), caller, limit)
}

// gone is closed when nobody wants to have what the context's request would say; nil: never.
func gone(ctx context.Context) <-chan struct{} {
	done, _ := ctx.Value(goneKey{}).(<-chan struct{})
	return done
}
