package partner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Connection is what the partner keeps of one member's connection.
type Connection struct {
	GrantID      string    `json:"grant_id"`
	Version      string    `json:"connection_version"`
	HistoryFrom  time.Time `json:"history_from"` // midnight UTC
	ConnectedAt  time.Time `json:"connected_at"`
	AccessToken  string    `json:"access_token"`
	AccessUntil  time.Time `json:"access_until"`
	RefreshToken string    `json:"refresh_token"`
	// Over says why the member must connect again; empty while the tokens work.
	Over string `json:"over,omitempty"`
	// Forgotten: the service forgot the consent, so that a new connection begins with its own first day.
	Forgotten bool `json:"forgotten,omitempty"`
}

// store is a file with the connections of all members.
type store struct {
	path string

	mu          sync.Mutex
	connections map[string]Connection
	members     map[string]string // by grant_id: also of connections that are gone, whose last event may yet come
}

func openStore(path string) (*store, error) {
	s := &store{path: path, connections: map[string]Connection{}, members: map[string]string{}}
	text, err := os.ReadFile(filepath.Clean(path))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s.connections)
	}
	if err != nil {
		return nil, fmt.Errorf("partner: tokens: %w", err)
	}
	s.index()
	return s, nil
}

func (s *store) get(member string) (Connection, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, found := s.connections[member]
	return c, found
}

// put replaces the connection of a member as a whole, in the file as well.
func (s *store) put(member string, c Connection) error {
	return s.change(func(all map[string]Connection) { all[member] = c })
}

func (s *store) remove(member string) error {
	return s.change(func(all map[string]Connection) { delete(all, member) })
}

func (s *store) change(do func(map[string]Connection)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := maps.Clone(s.connections)
	do(next)
	text, err := json.MarshalIndent(next, "", "  ")
	if err != nil {
		return err
	}
	// Written beside it and renamed: there is the old pair of tokens or the new one, never half of either.
	fresh := s.path + ".new"
	if err := os.WriteFile(fresh, append(text, '\n'), 0o600); err != nil {
		return err
	}
	if err := os.Rename(fresh, s.path); err != nil {
		return err
	}
	s.connections = next
	s.index()
	return nil
}

func (s *store) index() {
	for member, c := range s.connections {
		s.members[c.GrantID] = member
	}
}

// memberOf finds whose connection has the grant_id, or had it; empty where nobody's has.
func (s *store) memberOf(grant string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.members[grant]
}
