package activity

import (
	"fmt"
	"slices"
	"strings"
)

// table describes how one kind of record reaches its table in the database. Files come through a staging table, batches
// as arrays. Both are rows of a line number, the key and the values, and both go through the same merge.
type table struct {
	stored string   // the table in the database
	key    []string // columns by which a row replaces another one
	values []string // the other columns
	types  []string // of the key and the values

	createdAt  bool   // the table notes when a row first came
	primaryKey string // the constraint, where it is another key than the merge's
}

var stepsTable = table{
	stored: "daily_steps",
	key:    []string{"user_id", "date"},
	values: []string{"steps"},
	types:  []string{"uuid", "date", "integer"},
}

var ridesTable = table{
	stored:     "cycling_activities",
	key:        []string{"user_id", "source_id"},
	values:     []string{"start_time", "end_time", "distance_meters"},
	types:      []string{"uuid", `text collate "C"`, "timestamp", "timestamp", "integer"},
	primaryKey: "cycling_activities_pkey",
}

var stepCorrectionsTable = table{
	stored:     "step_corrections",
	key:        []string{"user_id", "correction_id"},
	values:     []string{"date", "delta", "note"},
	types:      []string{"uuid", "uuid", "date", "integer", "text"},
	createdAt:  true,
	primaryKey: "step_corrections_pkey",
}

var cyclingAdjustmentsTable = table{
	stored:     "cycling_adjustments",
	key:        []string{"user_id", "adjustment_id"},
	values:     []string{"date", "delta_meters", "note"},
	types:      []string{"uuid", "uuid", "date", "integer", "text"},
	createdAt:  true,
	primaryKey: "cycling_adjustments_pkey",
}

// removalsTable describes the names of rides to delete, which are not merged.
var removalsTable = table{
	stored: "cycling_activities",
	key:    []string{"user_id", "source_id"},
	types:  []string{"uuid", `text collate "C"`},
}

// columns are those of a row of a file or a batch.
func (t table) columns() []string { return slices.Concat([]string{"line"}, t.key, t.values) }

// insertNew is the statement that inserts the new rows of a file: of each key that is not stored yet, the last row. It
// makes large files fast: where most rows are new, an "on conflict" for each of them would take half as long again. If
// somebody else stores one of the keys meanwhile, the statement fails as a whole, and the merge takes all rows.
func (t table) insertNew() string {
	return t.fill(`
insert into TABLE (COLUMNS)
select distinct on (KEY) COLUMNS
from ` + stagedRows + `
where not exists (select from TABLE stored where (STORED.KEY) = (FRESH.KEY))
order by KEY, line desc`)
}

// merge is the statement that writes rows and counts what it inserted and updated. Of the rows with one key it takes the
// last one. It locks rows in the order of the key, so that two merges never wait for each other in a circle. A row that
// is stored like that already is left out twice: before, so that it is not even locked, and in the conflict, for what
// another merge stores meanwhile. A row that the statement itself inserted has no xmax; one that it updated has its own
// lock there.
func (t table) merge(rows string) string {
	return t.fill(`
with latest as (
	select distinct on (KEY) COLUMNS
	from ` + rows + `
	order by KEY, line desc
), merged as (
	insert into TABLE as stored (INSERTED)
	select SOURCES
	from latest
	where not exists (
		select from TABLE stored
		where (STORED.KEY) = (LATEST.KEY) and (STORED.VALUES) is not distinct from (LATEST.VALUES))
	order by KEY
	on conflict (KEY) do update set (VALUES) = row (EXCLUDED.VALUES)
	where (STORED.VALUES) is distinct from (EXCLUDED.VALUES)
	returning xmax = 0 as inserted
)
select count(*) filter (where inserted), count(*) filter (where not inserted) from merged`)
}

// fill replaces the words in capitals: TABLE by the name of the table, KEY, VALUES and COLUMNS by lists of its columns,
// and STORED.KEY and the like by lists of the columns of one row.
func (t table) fill(statement string) string {
	of := func(row string, columns []string) string { return row + "." + strings.Join(columns, ", "+row+".") }
	columns := strings.Join(slices.Concat(t.key, t.values), ", ")
	inserted, sources := columns, columns
	if t.createdAt {
		inserted, sources = inserted+", created_at", sources+", connect_now()"
	}
	return strings.NewReplacer(
		"STORED.KEY", of("stored", t.key), "FRESH.KEY", of("fresh", t.key), "LATEST.KEY", of("latest", t.key),
		"STORED.VALUES", of("stored", t.values), "LATEST.VALUES", of("latest", t.values),
		"EXCLUDED.VALUES", of("excluded", t.values),
		"TABLE", t.stored, "KEY", strings.Join(t.key, ", "), "VALUES", strings.Join(t.values, ", "),
		"COLUMNS", columns, "INSERTED", inserted, "SOURCES", sources,
	).Replace(statement)
}

// stagedRows is the staging table in a from clause.
const stagedRows = "staged as fresh"

// createStaging is the statement that makes the staging table. It lives as long as the transaction and is written to no
// log.
func (t table) createStaging() string {
	var columns strings.Builder
	for i, name := range t.columns()[1:] {
		fmt.Fprintf(&columns, ", %s %s", name, t.types[i])
	}
	return "create temporary table staged (line bigint" + columns.String() + ") on commit drop"
}

// arrayRows are rows in a from clause, given as one array for each column but the line, which is counted.
func (t table) arrayRows() string {
	arrays := make([]string, len(t.types))
	for i, name := range t.types {
		base, collation, _ := strings.Cut(name, " ")
		arrays[i] = fmt.Sprintf("$%d::%s[] %s", i+1, base, collation)
	}
	return "unnest(" + strings.Join(arrays, ", ") + ") with ordinality as fresh (" +
		strings.Join(t.columns()[1:], ", ") + ", line)"
}
