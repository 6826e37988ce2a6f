package activity

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/credential"
	"connect-svc/internal/fairqueue"
	"connect-svc/internal/postgres"
)

// The errors of a read, in the words of specification 7.4. Any other error is 503 data_unavailable.
var (
	ErrDateRange     = errors.New("invalid date range")
	ErrInvalidCursor = errors.New("invalid cursor")
)

// ErrUnknownUser is the answer to a write for a user who does not exist.
var ErrUnknownUser = errors.New("no such user")

// Settings of the reads.
type Settings struct {
	CursorLifetime time.Duration // of a traversal from its first page on: 1 s to 15 min

	// Replicas may answer the three reads, up to five seconds late. Who may read, and what, is never asked of them. Nil: none.
	Replicas *postgres.Replicas
}

// Activity reads and writes recorded activity. It is safe for concurrent use.
type Activity struct {
	pool     *postgres.Pool
	batches  *fairqueue.Queue
	keys     *credential.Keyring
	settings Settings
}

// A batch keeps a connection for as long as it takes. Few at a time leave the others to those who read.
const (
	batchesAtOnce  = 4
	batchesWaiting = 64
)

// New is the activity in the database of pool, its cursors and ids made with keys.
func New(pool *postgres.Pool, keys *credential.Keyring, settings Settings) *Activity {
	return &Activity{pool, fairqueue.New(batchesAtOnce, batchesWaiting), keys, settings}
}

// Reader is who reads whose activity, as the access token and its connection say.
type Reader struct {
	UserID, ClientID  uuid.UUID
	ConnectionVersion int64
	HistoryFrom       time.Time // first readable date of the connection: midnight UTC
	RegisteredOn      time.Time // the user's registration day: midnight UTC
	Now               time.Time // by the database's clock
}
