package pgstore

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"connect.invalid/connect-go/connect"
)

// Schema makes the tables. Run it once, or again, or put it among your migrations.
const Schema = `
create table if not exists connect_connections (
	key                text primary key,
	grant_id           uuid   not null,
	connection_version bigint not null,
	state              text   not null,
	sealed             bytea  not null,
	updated_at         timestamptz not null default now()
);
create index if not exists connect_connections_grant_id on connect_connections (grant_id);
create table if not exists connect_pace (
	client_id text primary key,
	last_at   timestamptz not null
);
`

// KeyBytes is the length of a key.
const KeyBytes = 32

// unlockTimeout bounds what giving a lock back may take. After it the session is closed, which gives it back, too.
const unlockTimeout = 5 * time.Second

// Store is a [connect.Store] in PostgreSQL.
type Store struct {
	db   *sql.DB
	keys []cipher.AEAD
}

var (
	_ connect.Store     = (*Store)(nil)
	_ connect.KeyFinder = (*Store)(nil)
	_ connect.Pacer     = (*Store)(nil)
)

// New takes the partner's database, which has the tables of [Schema], and the keys: the first seals, each opens. A
// refresh holds one connection of its pool until the service has answered.
func New(db *sql.DB, keys ...[]byte) (*Store, error) {
	s := &Store{db: db}
	for _, key := range keys {
		if len(key) != KeyBytes {
			return nil, fmt.Errorf("pgstore: a key must have %d bytes", KeyBytes)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("pgstore: %w", err)
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, fmt.Errorf("pgstore: %w", err)
		}
		s.keys = append(s.keys, aead)
	}
	if len(s.keys) == 0 {
		return nil, errors.New("pgstore: a key is required")
	}
	return s, nil
}

// Load implements [connect.Store].
func (s *Store) Load(ctx context.Context, key string) (connect.Connection, error) {
	return s.load(ctx, s.db, key)
}

// KeysOf implements [connect.KeyFinder]. It finds the keys of a connection that a webhook names by its grant_id. There may be several,
// if the users of several keys connected the same account.
func (s *Store) KeysOf(ctx context.Context, grantID string) ([]string, error) {
	rows, err := s.db.QueryContext(ctx, "select key from connect_connections where grant_id = $1 order by key", grantID)
	if err != nil {
		return nil, fmt.Errorf("pgstore: %w", err)
	}
	defer func() { _ = rows.Close() }()
	var keys []string
	for rows.Next() {
		var key string
		if err := rows.Scan(&key); err != nil {
			return nil, fmt.Errorf("pgstore: %w", err)
		}
		keys = append(keys, key)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("pgstore: %w", err)
	}
	return keys, nil
}

// Pace implements [connect.Pacer] with one statement. The database's clock decides, and no slot is more than ten minutes ahead of it: a
// clock that was set back does not stop the reads.
func (s *Store) Pace(ctx context.Context, clientID string, slots int, interval, hold time.Duration) (time.Duration, error) {
	var first float64 // seconds
	err := s.db.QueryRowContext(ctx, `insert into connect_pace as pace (client_id, last_at)
		values ($1, clock_timestamp() + ($4::float8 + ($2::int - 1) * $3::float8) * interval '1 second')
		on conflict (client_id) do update set last_at = ($2::int - 1) * $3::float8 * interval '1 second' + least(
			clock_timestamp() + interval '10 minutes',
			greatest(pace.last_at + $3::float8 * interval '1 second', clock_timestamp() + $4::float8 * interval '1 second'))
		returning extract(epoch from last_at - clock_timestamp())::float8 - ($2::int - 1) * $3::float8`,
		clientID, slots, interval.Seconds(), hold.Seconds()).Scan(&first)
	if err != nil {
		return 0, fmt.Errorf("pgstore: %w", err)
	}
	return time.Duration(first * float64(time.Second)), nil
}

// Lock implements [connect.Store].
func (s *Store) Lock(ctx context.Context, key string) (connect.Lock, error) {
	session, err := s.db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("pgstore: %w", err)
	}
	if _, err := session.ExecContext(ctx, "select pg_advisory_lock(hashtextextended($1, 0))", lockName(key)); err != nil {
		closeSession(session) // it may hold the lock
		return nil, fmt.Errorf("pgstore: %w", err)
	}
	return &lock{store: s, session: session, key: key}, nil
}

func lockName(key string) string { return "connect_connections:" + key }

type lock struct {
	store   *Store
	session *sql.Conn
	key     string
}

func (l *lock) Load(ctx context.Context) (connect.Connection, error) {
	return l.store.load(ctx, l.session, l.key)
}

func (l *lock) Save(ctx context.Context, c connect.Connection) error {
	return l.exec(c.State != connect.StateRefreshing, func(db querier) error { return l.store.save(ctx, db, l.key, c, db == l.session) })
}

func (l *lock) Delete(ctx context.Context) error {
	return l.exec(true, func(db querier) error {
		_, err := db.ExecContext(ctx, "delete from connect_connections where key = $1", l.key)
		return err
	})
}

// exec uses the session of the lock. If that broke, any other is better than to lose what was learned, such as the only copy of new
// tokens; then somebody else may have taken the lock, and all that they can have stored is that the outcome is not known, or a newer
// connection, which stays. A note that the refresh token is on its way is not learned: without the lock, somebody else may have used the
// token already.
func (l *lock) exec(learned bool, act func(querier) error) error {
	err := act(l.session)
	if learned && (errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone)) {
		err = act(l.store.db)
	}
	if err != nil {
		return fmt.Errorf("pgstore: %w", err)
	}
	return nil
}

func (l *lock) Unlock() {
	ctx, cancel := context.WithTimeout(context.Background(), unlockTimeout)
	defer cancel()
	var held bool
	err := l.session.QueryRowContext(ctx, "select pg_advisory_unlock(hashtextextended($1, 0))", lockName(l.key)).Scan(&held)
	if err != nil || !held {
		closeSession(l.session)
		return
	}
	_ = l.session.Close() // returns it to the pool
}

// closeSession ends the session instead of returning it to the pool, and with it what it has locked.
func closeSession(session *sql.Conn) {
	_ = session.Raw(func(any) error { return driver.ErrBadConn })
	_ = session.Close()
}

// querier is a database or one of its sessions.
type querier interface {
	ExecContext(ctx context.Context, query string, arguments ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, arguments ...any) *sql.Row
}

func (s *Store) load(ctx context.Context, db querier, key string) (c connect.Connection, err error) {
	var sealed []byte
	switch err := db.QueryRowContext(ctx, "select sealed from connect_connections where key = $1", key).Scan(&sealed); {
	case errors.Is(err, sql.ErrNoRows):
		return c, connect.ErrNotConnected
	case err != nil:
		return c, fmt.Errorf("pgstore: %w", err)
	}
	for _, aead := range s.keys {
		plain, err := aead.Open(nil, nil, sealed, []byte(key))
		if err != nil {
			continue
		}
		if err := json.Unmarshal(plain, &c); err != nil {
			return c, fmt.Errorf("pgstore: the row cannot be read: %w", err)
		}
		return c, nil
	}
	return c, errors.New("pgstore: none of the keys opens the row")
}

// save seals the connection to its key, so that a row cannot be put in the place of another. Without the lock it replaces no newer version.
// With it there is none, though the version may be lower: that of a service that began anew, such as a sandbox, or was restored.
func (s *Store) save(ctx context.Context, db querier, key string, c connect.Connection, locked bool) error {
	version, err := strconv.ParseInt(c.Version, 10, 64)
	if err != nil {
		return fmt.Errorf("the connection version is not a number: %w", err)
	}
	plain, err := json.Marshal(c) //nolint:gosec // it is sealed below
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, `insert into connect_connections as held (key, grant_id, connection_version, state, sealed)
		values ($1, $2, $3, $4, $5)
		on conflict (key) do update set grant_id = excluded.grant_id, connection_version = excluded.connection_version,
			state = excluded.state, sealed = excluded.sealed, updated_at = now()
		where $6::boolean or held.grant_id <> excluded.grant_id or held.connection_version <= excluded.connection_version`,
		key, c.GrantID.String(), version, string(c.State), s.keys[0].Seal(nil, nil, plain, []byte(key)), locked) //nolint:gosec // the nonce is random
	return err
}
