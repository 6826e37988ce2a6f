package credential

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// IdentifierKey is the name of the identifier key among the marks. The other names are ids of sealing keys.
const IdentifierKey = "identifiers"

// Database holds the marks, in its table keyset_marks.
type Database interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// CheckMarks returns an error unless the keyset has every key that was used on this database before. It then marks the keys that
// the keyset uses. Of servers that start on an empty database at the same time, the first decides.
func (k *Keyring) CheckMarks(ctx context.Context, db Database) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { return k.addMarks(ctx, tx, refuseForeign) })
}

// TryMarks returns what [Keyring.CheckMarks] would, and leaves the database unchanged.
func (k *Keyring) TryMarks(ctx context.Context, db Database) error {
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if err := k.addMarks(ctx, tx, refuseForeign); err != nil {
			return err
		}
		return errTried
	})
	if errors.Is(err, errTried) {
		return nil
	}
	return err
}

var errTried = errors.New("the keyset would do") // rolls back

// AdoptMarks makes the keyset the database's own, and forgets the keys that it does not have.
func (k *Keyring) AdoptMarks(ctx context.Context, db Database) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		return k.addMarks(ctx, tx, func(tx pgx.Tx, key string) error {
			_, err := tx.Exec(ctx, "delete from keyset_marks where key = $1", key)
			return err
		})
	})
}

// MarkedSince returns when each key was first used on a database, by its name.
func MarkedSince(ctx context.Context, db Database) (map[string]time.Time, error) {
	since, key, at := map[string]time.Time{}, "", time.Time{}
	rows, _ := db.Query(ctx, "select key, since from keyset_marks") // ForEachRow has its error
	if _, err := pgx.ForEachRow(rows, []any{&key, &at}, func() error { since[key] = at; return nil }); err != nil {
		return nil, fmt.Errorf("database: keys: %w", err)
	}
	return since, nil
}

func refuseForeign(_ pgx.Tx, key string) error {
	if key == IdentifierKey {
		return errForeignKeyset
	}
	return fmt.Errorf("the keyset (CONNECT_KEYSET_FILE) lacks key %s, which seals credentials of this database: "+
		"distribute the newest keyset file, see Rotating keys in docs/operations.md", key)
}

var errForeignKeyset = errors.New("the keyset (CONNECT_KEYSET_FILE) is not the one that this database's credentials are made with: " +
	"start with that one, see Rotating keys in docs/operations.md")

// addMarks adds the marks of the identifier key and of the primary sealing key. It calls foreign for each mark of a key that the
// keyset does not have.
func (k *Keyring) addMarks(ctx context.Context, tx pgx.Tx, foreign func(tx pgx.Tx, key string) error) error {
	const add = "insert into keyset_marks (key, mark) values ($1, $2) on conflict do nothing"
	sealed, err := k.Seal(keyMark)
	if err != nil {
		return err
	}
	fingerprint := k.PRF("fingerprint") // of nothing under the identifier key, which tells that key from others
	identifiers := hex.EncodeToString(fingerprint[:])
	// A server that starts at the same time waits here, and then sees what was added.
	if _, err := tx.Exec(ctx, add, IdentifierKey, identifiers); err != nil {
		return err
	}
	rows, _ := tx.Query(ctx, "select key, mark from keyset_marks order by key desc") // identifiers first; CollectRows has its error
	marks, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Key, Mark string }])
	if err != nil {
		return err
	}
	for _, m := range marks {
		if m.Key == IdentifierKey && m.Mark == identifiers {
			continue
		}
		if _, err := k.Open(keyMark, m.Mark); err == nil && m.Key != IdentifierKey {
			continue
		}
		if err := foreign(tx, m.Key); err != nil {
			return err
		}
	}
	primary := strconv.FormatUint(uint64(k.primary), 10)
	for key, mark := range map[string]string{IdentifierKey: identifiers, primary: sealed} {
		if _, err := tx.Exec(ctx, add, key, mark); err != nil {
			return err
		}
	}
	return nil
}
