package activity

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"connect-svc/internal/scope"
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

	readers int    // the scopes that read the table, as bits of scope_set
	date    string // of a row
}

var stepsTable = table{
	stored:  "daily_steps",
	key:     []string{"user_id", "date"},
	values:  []string{"steps"},
	types:   []string{"uuid", "date", "integer"},
	readers: int(scope.DailySteps),
	date:    "date",
}

var ridesTable = table{
	stored:     "cycling_activities",
	key:        []string{"user_id", "source_id"},
	values:     []string{"start_time", "end_time", "distance_meters"},
	types:      []string{"uuid", `text collate "C"`, "timestamp", "timestamp", "integer"},
	primaryKey: "cycling_activities_pkey",
	readers:    int(scope.CyclingDaily | scope.CyclingActivities),
	date:       "start_time::date",
}

var stepCorrectionsTable = table{
	stored:     "step_corrections",
	key:        []string{"user_id", "correction_id"},
	values:     []string{"date", "delta", "note"},
	types:      []string{"uuid", "uuid", "date", "integer", "text"},
	createdAt:  true,
	primaryKey: "step_corrections_pkey",
	readers:    int(scope.DailySteps),
	date:       "date",
}

var cyclingAdjustmentsTable = table{
	stored:     "cycling_adjustments",
	key:        []string{"user_id", "adjustment_id"},
	values:     []string{"date", "delta_meters", "note"},
	types:      []string{"uuid", "uuid", "date", "integer", "text"},
	createdAt:  true,
	primaryKey: "cycling_adjustments_pkey",
	readers:    int(scope.CyclingDaily),
	date:       "date",
}

// removalsTable describes the names of rides to delete, which are not merged.
var removalsTable = table{
	stored: "cycling_activities",
	key:    []string{"user_id", "source_id"},
	types:  []string{"uuid", `text collate "C"`},

	readers: ridesTable.readers,
	date:    ridesTable.date,
}

// columns are those of a row of a file or a batch.
func (t table) columns() []string { return slices.Concat([]string{"line"}, t.key, t.values) }

// insertNew is the statement that inserts the new rows of a file and counts them: of each key that is not stored yet, the last
// row. It makes large files fast: where most rows are new, an "on conflict" for each of them would take half as long again. If
// somebody else stores one of the keys meanwhile, the statement fails as a whole, and the merge takes all rows. told says
// whether anybody may want to know.
func (t table) insertNew(told bool) string {
	return t.fill(`
with existing as (
	select STORED.KEY from TABLE stored join ` + stagedRows + ` on (STORED.KEY) = (FRESH.KEY)
), changes as (
	insert into TABLE (COLUMNS)
	select distinct on (FRESH.KEY) FRESH.COLUMNS
	from ` + stagedRows + `
	left join existing on (EXISTING.KEY) = (FRESH.KEY)
	where existing.user_id is null
	order by FRESH.KEY, line desc
	returning user_id, DATE as date
)` + t.note(told) + `
select count(*) from changes`)
}

// merge is the statement that writes rows and counts what it inserted and updated. Of the rows with one key it takes the
// last one. It locks rows in the order of the key, so that two merges never wait for each other in a circle. A row that
// is stored like that already is left out twice: before, so that it is not even locked, and in the conflict, for what
// another merge stores meanwhile. A row that the statement itself inserted has no xmax; one that it updated has its own
// lock there. A row that moves to another date changes both. told says whether anybody may want to know.
func (t table) merge(rows string, told bool) string {
	return t.fill(`
with latest as materialized (
	select distinct on (KEY) COLUMNS
	from ` + rows + `
	order by KEY, line desc
), before as materialized (
	select STORED.COLUMNS from TABLE stored join latest on (STORED.KEY) = (LATEST.KEY)
), changing as materialized (
	select LATEST.COLUMNS
	from latest
	left join before on (BEFORE.KEY) = (LATEST.KEY)
	where before.user_id is null or (BEFORE.VALUES) is distinct from (LATEST.VALUES)
), merged as (
	insert into TABLE as stored (INSERTED)
	select SOURCES
	from changing
	order by KEY
	on conflict (KEY) do update set (VALUES) = row (EXCLUDED.VALUES)
	where (STORED.VALUES) is distinct from (EXCLUDED.VALUES)
	returning STORED.KEY, DATE as changed_date, xmax = 0 as inserted
), changes as (
	select user_id, changed_date as date from merged
	union all
	select before.user_id, before.DATE from before join merged on (BEFORE.KEY) = (MERGED.KEY)
)` + t.note(told) + `
select count(*) filter (where inserted), count(*) filter (where not inserted) from merged`)
}

// remove is the statement that deletes rows by their keys, and counts them.
func (t table) remove(told bool) string {
	return t.fill(`
with changes as (
	delete from TABLE
	where (KEY) in (select KEY from ` + t.arrayRows() + `)
	returning user_id, DATE as date
)` + t.note(told) + `
select count(*) from changes`)
}

// note is the part of a statement that tells webhooks of its changes, which are rows of a user and a date: for connections that
// may read them, and whose client has a webhook.
func (t table) note(told bool) string {
	if !told {
		return ""
	}
	return strings.ReplaceAll(`, noted as (
	insert into webhook_changes (user_id, client_id, datasets, first_date, last_date)
	select c.user_id, c.client_id, c.scopes & READERS, min(changes.date), max(changes.date)
	from changes
	join connections c on c.user_id = changes.user_id
	join webhook_endpoints w on w.client_id = c.client_id
	where c.state = 'authorized' and c.refresh_deadline > connect_now() and c.scopes & READERS <> 0
		and w.stopped_at is null and changes.date >= c.history_from
	group by c.user_id, c.client_id, c.scopes
)`, "READERS", strconv.Itoa(t.readers)+"::smallint")
}

// fill replaces the words in capitals: TABLE by the name of the table, DATE by the date of a row, KEY, VALUES and COLUMNS by
// lists of its columns, and STORED.KEY and the like by lists of the columns of one row.
func (t table) fill(statement string) string {
	columns := slices.Concat(t.key, t.values)
	words := []string{}
	for _, row := range []string{"stored", "fresh", "existing", "latest", "before", "merged", "excluded"} {
		of := func(columns []string) string { return row + "." + strings.Join(columns, ", "+row+".") }
		name := strings.ToUpper(row)
		words = append(words, name+".KEY", of(t.key), name+".VALUES", of(t.values), name+".COLUMNS", of(columns))
	}
	list := strings.Join(columns, ", ")
	inserted, sources := list, list
	if t.createdAt {
		inserted, sources = inserted+", created_at", sources+", connect_now()"
	}
	words = append(words, "TABLE", t.stored, "DATE", t.date, "KEY", strings.Join(t.key, ", "),
		"VALUES", strings.Join(t.values, ", "), "COLUMNS", list, "INSERTED", inserted, "SOURCES", sources)
	return strings.NewReplacer(words...).Replace(statement)
}

// stagedRows is the staging table in a from clause. In brackets a database that is spread over several nodes can join it.
const stagedRows = "(select * from staged) as fresh"

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
