package work

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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

// request is what the context of a piece of work says of it. It is one value, so that each change copies it.
type request struct {
	caller   Caller
	actor    string          // empty: nobody is named
	begun    *atomic.Int32   // counts its places that [Begin] was told of; nil: nobody counts
	first    time.Time       // until when it may wait for the first of them
	latest   time.Time       // until when it may wait for another one; zero: as long as the context lasts
	gone     <-chan struct{} // closed once its caller has gone away; nil: that does not matter
	anyClock bool            // see [AnyClock]
	meter    *meter          // adds up how long it uses the database; nil: nobody asks
}

type requestKey struct{}

func requestOf(ctx context.Context) request {
	known, _ := ctx.Value(requestKey{}).(request)
	return known
}

func with(ctx context.Context, change func(*request)) context.Context {
	changed := requestOf(ctx)
	change(&changed)
	return context.WithValue(ctx, requestKey{}, changed)
}

// WithCaller returns a context whose work is done for the caller.
func WithCaller(ctx context.Context, caller Caller) context.Context {
	return with(ctx, func(r *request) { r.caller = caller })
}

// CallerOf returns the caller of the context.
func CallerOf(ctx context.Context) Caller { return requestOf(ctx).caller }

// toComplete is what a request needs after it got its first place, on a busy machine.
const toComplete = 400 * time.Millisecond

// Within returns the context of a request. It names the caller, and ends after limit, not when the caller goes away: a running
// statement completes, and its connection is not closed. The request waits for places for nine tenths of its limit, see [ErrLate], but for the first
// one no longer than what leaves 400 ms.
func Within(ctx context.Context, caller Caller, limit time.Duration) (context.Context, context.CancelFunc) {
	asked := time.Now()
	return context.WithTimeout(with(context.WithoutCancel(ctx), func(r *request) {
		r.caller, r.begun, r.latest = caller, new(atomic.Int32), asked.Add(limit/10*9)
		r.first = asked.Add(limit - min(limit/3, max(limit/10, toComplete)))
	}), limit)
}

// mostBegun is how many places a request may have had to come before new ones: more than a read or an act needs. One that needs far more keeps
// nobody from beginning.
const mostBegun = 8

// Begin counts a place that the request of the context has. From then on it comes before requests of its kind that have none: what is begun is
// completed, also when more is asked for than can be done. If each place were a turn behind all others, most requests would be given up half
// done.
func Begin(ctx context.Context) {
	if begun := requestOf(ctx).begun; begun != nil {
		begun.Add(1)
	}
}

// Begun returns a context for a part of requests that have begun. It does not end with one caller, see [WithinWhileWanted].
func Begun(ctx context.Context) context.Context {
	return with(ctx, func(r *request) {
		r.begun, r.gone = new(atomic.Int32), nil
		r.begun.Add(1)
	})
}

func (r request) hasBegun() bool {
	if r.begun == nil {
		return false
	}
	places := r.begun.Load()
	return 0 < places && places <= mostBegun
}

// until returns until when the request may wait for a place.
func (r request) until() time.Time {
	if r.begun != nil && r.begun.Load() == 0 {
		return r.first
	}
	return r.latest
}

// WithinWhileWanted is [Within] for a request that may be dropped: once its caller has gone away, it stops waiting for a place
// with [ErrGone]. If it already has a place, it goes on.
func WithinWhileWanted(ctx context.Context, caller Caller, limit time.Duration) (context.Context, context.CancelFunc) {
	return Within(with(ctx, func(r *request) { r.gone = ctx.Done() }), caller, limit)
}

// AnyClock returns a context whose statements are sent even if the database's clock is not believed. They must not issue, end or delete
// anything by that clock.
func AnyClock(ctx context.Context) context.Context {
	return with(ctx, func(r *request) { r.anyClock = true })
}

// HasAnyClock reports whether the context is one of [AnyClock].
func HasAnyClock(ctx context.Context) bool { return requestOf(ctx).anyClock }

// AnyOperator is the actor if the context names nobody.
const AnyOperator = "operator"

// System is the actor of what the service itself does.
const System = "system"

// reserved are the audit log's names for actors without a token.
var reserved = []string{"user", "client", AnyOperator, System}

var actorName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// IsActorName reports whether the audit log may use the text as a name: 1 to 64 letters, digits, dots, hyphens and underscores that begin
// with a letter or a digit. The names user, client, operator and system are reserved in any case. An email address is not a name,
// because the log contains none.
func IsActorName(text string) bool {
	return actorName.MatchString(text) && !slices.Contains(reserved, strings.ToLower(text))
}

// WithActor returns a context whose actor has this name, for the audit log. An edge names the holder of a token, or the person at the command line.
// Domains record the actor with each act. A name grants nothing.
func WithActor(ctx context.Context, name string) context.Context {
	return with(ctx, func(r *request) { r.actor = name })
}

// IsPersonName reports whether the audit log may name a person at a command line so: as a token, or with a reserved name.
func IsPersonName(text string) bool { return actorName.MatchString(text) }

// Actor returns the name of the actor of ctx.
func Actor(ctx context.Context) string {
	return cmp.Or(requestOf(ctx).actor, AnyOperator)
}

// meter adds up the time of uses, of which several may run at once.
type meter struct {
	mu    sync.Mutex
	sum   time.Duration // of the ends since began, less the starts
	open  int           // uses that have not ended
	began time.Time
}

func (m *meter) count(open int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open += open
	m.sum -= time.Duration(open) * time.Since(m.began)
}

// Measured returns a context whose work is asked how long it uses the database: total returns the time of all its statements until now, with what
// they wait for a connection.
func Measured(ctx context.Context) (measured context.Context, total func() time.Duration) {
	m := &meter{began: time.Now()}
	return with(ctx, func(r *request) { r.meter = m }), func() time.Duration {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.sum + time.Duration(m.open)*time.Since(m.began)
	}
}

// Unmeasured returns a context whose work is not part of what [Measured] asks for.
func Unmeasured(ctx context.Context) context.Context {
	return with(ctx, func(r *request) { r.meter = nil })
}

// Use says that the work of the context waits for the database or uses it, until done is called.
func Use(ctx context.Context) (done func()) {
	m := requestOf(ctx).meter
	if m == nil {
		return func() {}
	}
	m.count(1)
	return func() { m.count(-1) }
}
