package activity

import (
	"fmt"
	"strings"
)

// table is how one kind of record comes in. Files come through a staging table, batches as arrays; both are rows
// with the same columns, the first of which is the line, and go through the same merge.
type table struct {
	name        string
	fileColumns []string
	columns     []string // of the staged rows
	types       []string // of the columns
	insert      string   // the statement for a staged file's new rows
	merge       string   // the statement, with %s where the rows come from
	primaryKey  string   // the constraint, where the merge resolves conflicts by another key
}

// The inserts are what makes large files fast: where most rows are new, an "on conflict" for each of them would take
// half as long again. They take, in the same order, the last row of each key that is not stored, and count on nobody
// storing it meanwhile; if somebody does, they fail as a whole, and the merge takes all rows.

// The merges have one form: of the rows with one key the last one, unless it is stored like that already, in the order
// of the key, so that two merges never wait for each other in a circle. What is stored like that is left out twice:
// before, so that it is not even locked, and in the conflict, for what another merge stores meanwhile. A row that the
// statement itself inserted has no xmax; one that it updated has its own lock there.

var stepsTable = table{
	name:        "daily steps",
	fileColumns: stepsColumns,
	columns:     []string{"line", "user_id", "date", "steps"},
	types:       []string{"bigint", "uuid", "date", "integer"},
	insert: `
insert into daily_steps (user_id, date, steps)
select distinct on (user_id, date) user_id, date, steps
from %s
where not exists (select from daily_steps d where d.user_id = fresh.user_id and d.date = fresh.date)
order by user_id, date, line desc`,
	merge: `
with latest as (
	select distinct on (user_id, date) user_id, date, steps
	from %s
	order by user_id, date, line desc
), merged as (
	insert into daily_steps as stored (user_id, date, steps)
	select user_id, date, steps
	from latest
	where not exists (
		select from daily_steps d
		where d.user_id = latest.user_id and d.date = latest.date and d.steps = latest.steps)
	order by user_id, date
	on conflict (user_id, date) do update set steps = excluded.steps
	where stored.steps <> excluded.steps
	returning xmax = 0 as inserted
)
select count(*) filter (where inserted), count(*) filter (where not inserted) from merged`,
}

var ridesTable = table{
	name:        "cycling activities",
	fileColumns: ridesColumns,
	columns:     []string{"line", "user_id", "source_id", "start_time", "end_time", "distance_meters"},
	types:       []string{"bigint", "uuid", `text collate "C"`, "timestamp", "timestamp", "integer"},
	primaryKey:  "cycling_activities_pkey",
	insert: `
insert into cycling_activities (user_id, source_id, start_time, end_time, distance_meters)
select distinct on (user_id, source_id) user_id, source_id, start_time, end_time, distance_meters
from %s
where not exists (
	select from cycling_activities c where c.user_id = fresh.user_id and c.source_id = fresh.source_id)
order by user_id, source_id, line desc`,
	merge: `
with latest as (
	select distinct on (user_id, source_id) user_id, source_id, start_time, end_time, distance_meters
	from %s
	order by user_id, source_id, line desc
), merged as (
	insert into cycling_activities as stored (user_id, source_id, start_time, end_time, distance_meters)
	select user_id, source_id, start_time, end_time, distance_meters
	from latest
	where not exists (
		select from cycling_activities c
		where c.user_id = latest.user_id and c.source_id = latest.source_id
			and (c.start_time, c.end_time, c.distance_meters)
				is not distinct from (latest.start_time, latest.end_time, latest.distance_meters))
	order by user_id, source_id
	on conflict (user_id, source_id) do update
		set start_time = excluded.start_time, end_time = excluded.end_time, distance_meters = excluded.distance_meters
	where (stored.start_time, stored.end_time, stored.distance_meters)
		is distinct from (excluded.start_time, excluded.end_time, excluded.distance_meters)
	returning xmax = 0 as inserted
)
select count(*) filter (where inserted), count(*) filter (where not inserted) from merged`,
}

var (
	correctionsTable = adjustmentTable("step corrections", "step_corrections", "correction_id", "delta")
	adjustmentsTable = adjustmentTable("cycling adjustments", "cycling_adjustments", "adjustment_id", "delta_meters")
)

// adjustmentTable is one of the two tables of adjustments, which differ in nothing but names. A row that is replaced
// keeps the time of its first coming.
func adjustmentTable(name, stored, id, delta string) table {
	return table{
		name:       name,
		columns:    []string{"line", "user_id", "id", "date", "delta", "note"},
		types:      []string{"bigint", "uuid", "uuid", "date", "integer", "text"},
		primaryKey: stored + "_pkey",
		merge: strings.NewReplacer("STORED", stored, "ID", id, "DELTA", delta).Replace(`
with latest as (
	select distinct on (user_id, id) user_id, id, date, delta, note
	from %s
	order by user_id, id, line desc
), merged as (
	insert into STORED as stored (user_id, ID, date, DELTA, note, created_at)
	select user_id, id, date, delta, note, connect_now()
	from latest
	where not exists (
		select from STORED a
		where a.user_id = latest.user_id and a.ID = latest.id
			and (a.date, a.DELTA, a.note) = (latest.date, latest.delta, latest.note))
	order by user_id, id
	on conflict (user_id, ID) do update set date = excluded.date, DELTA = excluded.DELTA, note = excluded.note
	where (stored.date, stored.DELTA, stored.note) <> (excluded.date, excluded.DELTA, excluded.note)
	returning xmax = 0 as inserted
)
select count(*) filter (where inserted), count(*) filter (where not inserted) from merged`),
	}
}

// removalsTable holds the names of rides that are to go. They are not merged.
var removalsTable = table{
	name:    "removals",
	columns: []string{"line", "user_id", "source_id"},
	types:   []string{"bigint", "uuid", `text collate "C"`},
}

// rowSource is where the rows of a merge come from.
type rowSource struct {
	table
	sql  string // in a from clause
	args []any
}

const stagingTable = "staged"

// createStaging makes the staging table. It lives as long as the transaction and is written to no log.
func (t table) createStaging() string {
	columns := make([]string, len(t.columns))
	for i, name := range t.columns {
		columns[i] = name + " " + t.types[i]
	}
	return "create temporary table " + stagingTable + " (" + strings.Join(columns, ", ") + ") on commit drop"
}

// staged are the rows in the staging table.
func (t table) staged() rowSource { return rowSource{table: t, sql: stagingTable + " as fresh"} }

// batch are rows given as one array for each column but the line, which is counted.
func (t table) batch(arrays ...any) rowSource {
	list := make([]string, len(arrays))
	for i := range arrays {
		base, _, _ := strings.Cut(t.types[i+1], " ")
		list[i] = fmt.Sprintf("$%d::%s[]", i+1, base)
	}
	sql := "unnest(" + strings.Join(list, ", ") + ") with ordinality as fresh (" +
		strings.Join(t.columns[1:], ", ") + ", line)"
	return rowSource{table: t, sql: sql, args: arrays}
}
