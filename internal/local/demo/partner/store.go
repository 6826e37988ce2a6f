package partner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"

	"connect.invalid/connect-go/connect"
)

// kept is what the partner keeps of one member: the connection, and what its page says about it.
type kept struct {
	connect.Connection
	ConnectedAt time.Time `json:"connected_at"`
	// Why is the reason for which the member must connect again, if it is known.
	Why string `json:"why,omitempty"`
	// Forgotten: the service forgot the consent, so that a new connection begins with its own first day.
	Forgotten bool `json:"forgotten,omitempty"`
}

// over reports that the member must connect again.
func (k kept) over() bool { return k.State == connect.StateEnded || k.State == connect.StateUncertain }

// fileStore is a connect.Store in a file that only its owner can read, for a single process.
type fileStore struct {
	path  string
	locks *connect.MemoryStore // for its locks alone

	mu      sync.Mutex
	members map[string]kept
	byGrant map[uuid.UUID]string // also of connections that are gone, whose last event may yet come
}

func openStore(path string) (*fileStore, error) {
	s := &fileStore{path: path, locks: connect.NewMemoryStore(), members: map[string]kept{}, byGrant: map[uuid.UUID]string{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s.members)
	}
	if err != nil {
		return nil, fmt.Errorf("partner: connections: %w", err)
	}
	s.index()
	return s, nil
}

// Load implements [connect.Store].
func (s *fileStore) Load(_ context.Context, member string) (connect.Connection, error) {
	k, found := s.get(member)
	if !found {
		return connect.Connection{}, connect.ErrNotConnected
	}
	return k.Connection, nil
}

// Lock implements [connect.Store].
func (s *fileStore) Lock(ctx context.Context, member string) (connect.Lock, error) {
	lock, err := s.locks.Lock(ctx, member)
	return fileLock{Lock: lock, store: s, member: member}, err
}

// fileLock is a lock in memory over a connection in the file.
type fileLock struct {
	connect.Lock
	store  *fileStore
	member string
}

func (l fileLock) Load(ctx context.Context) (connect.Connection, error) {
	return l.store.Load(ctx, l.member)
}

func (l fileLock) Save(_ context.Context, c connect.Connection) error {
	return l.store.change(func(members map[string]kept) {
		k := members[l.member]
		if k.Version != c.Version || k.GrantID != c.GrantID { // connected anew
			k = kept{ConnectedAt: time.Now()}
		}
		k.Connection = c
		members[l.member] = k
	})
}

func (l fileLock) Delete(context.Context) error {
	return l.store.change(func(members map[string]kept) { delete(members, l.member) })
}

func (s *fileStore) get(member string) (kept, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, found := s.members[member]
	return k, found
}

// note changes what the page says about a connection, if there is one.
func (s *fileStore) note(member string, change func(*kept)) error {
	return s.change(func(members map[string]kept) {
		if k, found := members[member]; found {
			change(&k)
			members[member] = k
		}
	})
}

func (s *fileStore) change(do func(map[string]kept)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := maps.Clone(s.members)
	do(next)
	text, err := json.MarshalIndent(next, "", "  ")
	if err != nil {
		return err
	}
	// A new file replaces the old one: there is the old pair of tokens or the new one, never half of either.
	fresh := s.path + ".new"
	if err := os.WriteFile(fresh, append(text, '\n'), 0o600); err != nil {
		return err
	}
	if err := os.Rename(fresh, s.path); err != nil {
		return err
	}
	s.members = next
	s.index()
	return nil
}

func (s *fileStore) index() {
	for member, k := range s.members {
		s.byGrant[k.GrantID] = member
	}
}

// memberOf finds whose connection has the grant, or had it; empty for nobody's.
func (s *fileStore) memberOf(_ context.Context, grant uuid.UUID) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byGrant[grant], nil
}
