package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Keyset is what a database keeps of a keyset, and how it is known again: see credential.Keyring.
type Keyset interface {
	// Fingerprint is that of the one key that never rotates.
	Fingerprint() string
	// Mark is what the primary sealing key sealed, under a name of the key.
	Mark() (key, mark string, err error)
	// Knows says whether a key of the keyset sealed the mark.
	Knows(mark string) bool
}

// NeverRotates is the name of that key among the marks.
const NeverRotates = "identifiers"

// CheckKeyset returns an error unless the keyset has every key that a keyset was used with before on this database, and
// remembers the keys that it has. Of servers that start on an empty database at the same time, the first decides.
func CheckKeyset(ctx context.Context, pool *Pool, keyset Keyset) error {
	return InTx(ctx, pool, func(tx pgx.Tx) error { return markKeyset(ctx, tx, keyset, refuseForeign) })
}

// KeysMarked says when each key of the keyset was used first on a database, by its name.
func KeysMarked(ctx context.Context, pool *Pool) (map[string]time.Time, error) {
	rows, err := pool.Query(ctx, "select key, since from keyset_marks")
	if err != nil {
		return nil, fmt.Errorf("database: keys: %w", err)
	}
	marked, since := map[string]time.Time{}, time.Time{}
	key := ""
	_, err = pgx.ForEachRow(rows, []any{&key, &since}, func() error { marked[key] = since; return nil })
	return marked, Wrap("database: keys", err)
}

// TryKeyset returns what [CheckKeyset] would, and leaves the database as it is.
func TryKeyset(ctx context.Context, pool *Pool, keyset Keyset) error {
	err := InTx(ctx, pool, func(tx pgx.Tx) error {
		if err := markKeyset(ctx, tx, keyset, refuseForeign); err != nil {
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

func refuseForeign(_ pgx.Tx, key string) error {
	if key == NeverRotates {
		return errForeignKeyset
	}
	return fmt.Errorf("the keyset (CONNECT_KEYSET_FILE) lacks key %s, which seals credentials of this database: "+
		"distribute the newest keyset file, see Rotating keys in docs/operations.md", key)
}

var errForeignKeyset = errors.New("the keyset (CONNECT_KEYSET_FILE) is not the one that this database's credentials are made with: " +
	"start with that one, see Rotating keys in docs/operations.md")

// AdoptKeyset makes a keyset the database's own, and forgets the keys that it does not have.
func AdoptKeyset(ctx context.Context, pool *Pool, keyset Keyset) error {
	return InTx(ctx, pool, func(tx pgx.Tx) error {
		return markKeyset(ctx, tx, keyset, func(tx pgx.Tx, key string) error {
			_, err := tx.Exec(ctx, "delete from keyset_marks where key = $1", key)
			return err
		})
	})
}

// markKeyset adds the marks of a keyset. Each that is there and that the keyset does not know is foreign.
func markKeyset(ctx context.Context, tx pgx.Tx, keyset Keyset, foreign func(tx pgx.Tx, key string) error) error {
	const add = "insert into keyset_marks (key, mark) values ($1, $2) on conflict do nothing"
	primary, sealed, err := keyset.Mark()
	if err != nil {
		return err
	}
	// A server that starts at the same time waits here, and then sees what was added.
	if _, err := tx.Exec(ctx, add, NeverRotates, keyset.Fingerprint()); err != nil {
		return err
	}
	rows, err := tx.Query(ctx, "select key, mark from keyset_marks order by key desc") // identifiers first
	if err != nil {
		return err
	}
	marks, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Key, Mark string }])
	if err != nil {
		return err
	}
	for _, m := range marks {
		if m.Key == NeverRotates && m.Mark == keyset.Fingerprint() || m.Key != NeverRotates && keyset.Knows(m.Mark) {
			continue
		}
		if err := foreign(tx, m.Key); err != nil {
			return err
		}
	}
	for key, mark := range map[string]string{NeverRotates: keyset.Fingerprint(), primary: sealed} {
		if _, err := tx.Exec(ctx, add, key, mark); err != nil {
			return err
		}
	}
	return nil
}
