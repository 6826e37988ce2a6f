package pgtest

import (
	"fmt"
	"testing"
)

// Away has each statement fail that adds or changes a row of table for which condition holds, such as new.key = '…': as on a cluster whose
// node with that row is away. The row is back when back is called.
func (db *DB) Away(t testing.TB, table, condition string) (back func()) {
	t.Helper()
	NotOnCluster(t, "a shard has no trigger")
	for _, statement := range []string{
		fmt.Sprintf(`create function %s_away() returns trigger language plpgsql as
			$$begin if %s then raise 'connection to the remote node failed' using errcode = '08006'; end if; return new; end$$`, table, condition),
		fmt.Sprintf("create trigger away before insert or update on %[1]s for each row execute function %[1]s_away()", table),
	} {
		db.Exec(t, statement)
	}
	return func() { t.Helper(); db.Exec(t, fmt.Sprintf("drop function %s_away cascade", table)) }
}
