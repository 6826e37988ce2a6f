package postgres

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
)

// ConfigOf is how a pool connects.
func ConfigOf(p *Pool) *pgxpool.Config { return p.conns.Config() }

// Table is where a table goes on a cluster.
type Table struct {
	Name                 string
	Column               string // that it is sharded by, or none
	Leader, LeaderColumn string
	Group                string // of the tables whose rows are in one place
}

// Tables are all tables.
func Tables() (all []Table) {
	columns := map[string]string{}
	for _, name := range referenceTables {
		all = append(all, Table{Name: name, Group: "reference"})
	}
	for _, name := range coordinatorTables {
		all = append(all, Table{Name: name, Group: name})
	}
	for _, table := range shardedTables {
		columns[table.name] = table.column
		all = append(all, Table{table.name, table.column, table.leader, columns[table.leader], cmp.Or(table.leader, table.name)})
	}
	return all
}

// ForeignKey is one that is added to a cluster.
type ForeignKey struct{ Table, Columns, RefersTo, Definition string }

// ForeignKeys are all of them.
func ForeignKeys() (all []ForeignKey) {
	for _, key := range foreignKeys {
		all = append(all, ForeignKey{key.table, key.columns, key.refersTo, strings.TrimSpace(fmt.Sprintf(
			"%s FOREIGN KEY (%s) REFERENCES %s(%s) %s", constraintOf(key.table, key.columns), key.columns, key.refersTo,
			key.columns, strings.ToUpper(key.cascade)))})
	}
	return all
}
