package activity

import (
	"time"

	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/postgres/replica"
	"connect-svc/internal/foundation/work"
)

// Settings of the reads.
type Settings struct {
	CursorLifetime time.Duration `setting:"" type:"1s to 15m" default:"15m" help:"Time allowed for reading all pages of one query, 1s to 15m."`

	// Replicas may answer the three reads, up to five seconds late. Permissions are never read from them. Nil: none.
	Replicas *replica.Set `kong:"-"`
}

// Store is the recorded activity in a database. It is safe for concurrent use.
type Store struct {
	pool     *postgres.Pool
	batches  *work.Queue
	keys     *credential.Keyring
	settings Settings
}

// A batch holds a database connection until it is written. Running only a few at a time leaves the others to reads.
const (
	batchesAtOnce  = 4
	batchesWaiting = 64
)

// New returns the activity in the database of pool. Cursors and the ids of rides are made with keys.
func New(pool *postgres.Pool, keys *credential.Keyring, settings Settings) *Store {
	return &Store{pool, work.NewQueue(batchesAtOnce, batchesWaiting), keys, settings}
}
