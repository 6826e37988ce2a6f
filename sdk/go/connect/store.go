package connect

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	connectsdk "connect.invalid/connect-go"
)

// State is how a connection stands, as far as the partner knows.
type State string

// The states of a [Connection].
const (
	// StateActive: it can be read and refreshed.
	StateActive State = "active"
	// StateRefreshing: its refresh token is on its way, and must not be sent again whatever happens.
	StateRefreshing State = "refreshing"
	// StateUncertain: nobody knows whether a refresh used up its token. The user must connect again.
	StateUncertain State = "uncertain"
	// StateEnded: revoked, disconnected by the user or lapsed. The user must connect again.
	StateEnded State = "ended"
)

// Connection is what a [Store] keeps for a key. The tokens are secret: a store keeps them encrypted, and printing or
// logging a Connection leaves them out.
type Connection struct {
	GrantID     uuid.UUID               `json:"grant_id"`           // names it in webhooks; the same after connecting again
	Version     string                  `json:"connection_version"` // a decimal number; a webhook below it is stale
	HistoryFrom connectsdk.CalendarDate `json:"history_from"`       // the first day that can be read
	Scope       string                  `json:"scope"`              // space-separated
	State       State                   `json:"state"`

	AccessToken  string    `json:"access_token,omitempty"`
	UseUntil     time.Time `json:"use_until"` // when AccessToken is to be refreshed: a little before it expires
	RefreshToken string    `json:"refresh_token,omitempty"`

	// SharedWith are the other keys that connected the same account. Only [Client.Finish] tells it, and nothing stores it.
	SharedWith []string `json:"-"`
	// FormerGrants are those of other accounts that this key had before. They may still be open at the service, where the person
	// sees them: [Client.DisconnectFormer] ends them.
	FormerGrants []uuid.UUID `json:"former_grants,omitempty"`
}

// String leaves the tokens out.
func (c Connection) String() string {
	return "connection " + c.GrantID.String() + " version " + c.Version + " (" + string(c.State) + ")"
}

// GoString leaves the tokens out.
func (c Connection) GoString() string { return c.String() }

// LogValue leaves the tokens out.
func (c Connection) LogValue() slog.Value {
	return slog.GroupValue(slog.String("grant_id", c.GrantID.String()), slog.String("connection_version", c.Version),
		slog.String("state", string(c.State)))
}

// Store keeps connections by a key that the partner chooses, such as the id of its user. All instances of a backend must
// share one: [NewMemoryStore] serves a single process, package pgstore any number.
type Store interface {
	// Load returns the connection as it was last saved, without waiting for a lock. It is [ErrNotConnected] if there is
	// none.
	Load(ctx context.Context, key string) (Connection, error)
	// Lock waits until nobody else holds the lock of key, in any process. The lock must end with the process that holds
	// it, and must not end by itself within three minutes.
	Lock(ctx context.Context, key string) (Lock, error)
}

// KeyFinder is what a [Store] may have, too. Without it the [Client] does not know that two keys connected the same account.
type KeyFinder interface {
	// KeysOf returns the keys whose connections have a grant, in order.
	KeysOf(ctx context.Context, grantID string) ([]string, error)
}

// Pacer is what a [Store] may have, too, to set one pace for the reads of all processes. Without it, and while it fails, each process
// has its own pace.
type Pacer interface {
	// Pace gives away the next slots of a registration: moments at which one read may leave, for any process. Slots lie interval apart,
	// and so does the first of them from the last one that was given to anybody. None is sooner than in hold, which is above zero
	// after a 429. It returns in what time the first slot is.
	Pace(ctx context.Context, clientID string, slots int, interval, hold time.Duration) (first time.Duration, err error)
}

// Lock is the right to change the connection of one key.
type Lock interface {
	// Load is that of [Store].
	Load(ctx context.Context) (Connection, error)
	// Save stores the connection in place of the one that was there, durably before it returns. If the lock was lost, it must fail for
	// [StateRefreshing]: another process may have used the refresh token since.
	Save(ctx context.Context, c Connection) error
	// Delete forgets the connection. If there is none, it returns nil.
	Delete(ctx context.Context) error
	// Unlock gives the lock back. It is called once.
	Unlock()
}

// MemoryStore is a [Store] for a single process, which forgets everything when that ends.
type MemoryStore struct {
	mu          sync.Mutex
	connections map[string]Connection
	locks       map[string]chan struct{} // holds one element while the lock is taken
}

// NewMemoryStore makes an empty one.
func NewMemoryStore() *MemoryStore {
	return &MemoryStore{connections: map[string]Connection{}, locks: map[string]chan struct{}{}}
}

// Load implements [Store].
func (s *MemoryStore) Load(_ context.Context, key string) (Connection, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, found := s.connections[key]
	if !found {
		return c, ErrNotConnected
	}
	return c, nil
}

// KeysOf implements [KeyFinder].
func (s *MemoryStore) KeysOf(_ context.Context, grantID string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	for key, c := range s.connections {
		if c.GrantID.String() == grantID {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// Lock implements [Store].
func (s *MemoryStore) Lock(ctx context.Context, key string) (Lock, error) {
	s.mu.Lock()
	taken, found := s.locks[key]
	if !found {
		taken = make(chan struct{}, 1)
		s.locks[key] = taken
	}
	s.mu.Unlock()
	select {
	case taken <- struct{}{}:
		return &memoryLock{store: s, key: key, taken: taken}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type memoryLock struct {
	store *MemoryStore
	key   string
	taken chan struct{}
}

func (l *memoryLock) Load(ctx context.Context) (Connection, error) { return l.store.Load(ctx, l.key) }

func (l *memoryLock) Save(_ context.Context, c Connection) error {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	l.store.connections[l.key] = c
	return nil
}

func (l *memoryLock) Delete(context.Context) error {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	delete(l.store.connections, l.key)
	return nil
}

func (l *memoryLock) Unlock() { <-l.taken }
