package activity

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/scope"
)

// table describes how one kind of record is written to its table in the database. Files come through a staging table, batches
// as arrays. Both are rows of a line number, the key and the values, and both use the same merge.
type table struct {
	stored string   // the table in the database
	key    []string // columns that identify a row
	values []string // the other columns
	types  []string // of the key, the values and observed_at

	observed   bool   // the table has observed_at: what was observed before what is stored does not replace it
	createdAt  bool   // the table has the time when a row was created
	primaryKey string // the constraint, if it is not the key of the merge

	readers int    // the scopes that read the table, as bits of scope_set
	date    string // expression for the date of a row

	// The column of a row that has its date, counted from the user, and the name that sources have for it; empty: none has.
	dateColumn int
	dateField  string

	texts []string // expressions for the columns of a file
}

const observedText = `coalesce(to_char(observed_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), '')`

var stepsTable = table{
	stored:   "daily_steps",
	key:      []string{"user_id", "date"},
	values:   []string{"steps"},
	types:    []string{"uuid", "date", "integer", "timestamptz"},
	observed: true,
	readers:  int(scope.DailySteps),
	date:     "date",

	dateColumn: 1, dateField: "date",
	texts: []string{"user_id::text", "to_char(date, 'YYYY-MM-DD')", "steps::text", observedText},
}

var ridesTable = table{
	stored:     "cycling_activities",
	key:        []string{"user_id", "source_id"},
	values:     []string{"start_time", "end_time", "distance_meters"},
	types:      []string{"uuid", `text collate "C"`, "timestamp", "timestamp", "integer", "timestamptz"},
	observed:   true,
	primaryKey: "cycling_activities_pkey",
	readers:    int(scope.CyclingDaily | scope.CyclingActivities),
	date:       "start_time::date",

	dateColumn: 2, dateField: "recorded_start_time",
	texts: []string{
		"user_id::text", "source_id", `to_char(start_time, 'YYYY-MM-DD"T"HH24:MI:SS.US')`,
		`coalesce(to_char(end_time, 'YYYY-MM-DD"T"HH24:MI:SS.US'), '')`, "distance_meters::text", observedText,
	},
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

	dateColumn: 2, dateField: "date",
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

	dateColumn: 2, dateField: "date",
}

// keys returns the table of rows that name what to delete. Such rows have no values and are not merged.
func (t table) keys() table {
	t.values, t.types, t.observed, t.dateField = nil, t.types[:len(t.key)], false, ""
	return t
}

// state returns the columns that a write sets in a row that is there.
func (t table) state() []string {
	if t.observed {
		return append(slices.Clip(t.values), "observed_at")
	}
	return t.values
}

// columns returns the columns of a row of a file or a batch.
func (t table) columns() []string { return slices.Concat([]string{"line"}, t.key, t.state()) }

// partRows are the rows of a part of a sorted file, for a from clause. The subquery lets a database that is spread over several nodes
// join them. partUsers limits the other side of such a join to the same users.
const (
	partRows  = "(select * from sorted where " + postgres.InPart + ") as fresh"
	partUsers = "\n\twhere stored." + postgres.InPart
)

// insertNew returns the statement that inserts the new rows of a part of a file and counts them. It makes large files fast: if
// most rows are new, an "on conflict" for each of them takes half as long again. If another transaction stores one of the keys at
// the same time, the statement fails as a whole, and the merge takes all rows. record is as in [table.merge].
func (t table) insertNew(record string) string {
	return t.fill(`
with existing as (
	select STORED.KEY from TABLE stored join ` + partRows + ` on (STORED.KEY) = (FRESH.KEY)` + partUsers + `
), changes as (
	insert into TABLE (COLUMNS)
	select FRESH.COLUMNS
	from ` + partRows + `
	left join existing on (EXISTING.KEY) = (FRESH.KEY)
	where existing.user_id is null
	order by FRESH.KEY
	returning user_id, DATE as date
)` + record + `
select count(*) from changes`)
}

// merge returns the statement that writes rows and counts those that it inserted, those that it updated, and those that were observed before
// what is stored. Of the rows with one key it takes [newest]. It locks rows in the order of the key, so that merges do not deadlock. Unchanged rows are skipped twice: before the
// insert, so that they are not even locked, and in the conflict, because another merge may have stored them by then. The xmax of a row
// is 0 if the statement inserted it, and not 0 if it updated the row. A row that moves to another date changes both dates. A row of
// which only the observation is newer gets that, and has not changed. record
// records the changes: [table.recordChanges], [noteChanges] or nothing. stored is a condition that narrows the rows of the table, or empty. With own, rows are [table.arrayRows],
// and a cluster runs the statement on their users' nodes alone, because each part of it names the users.
func (t table) merge(rows, stored string, own bool, record string) string {
	source, owners := "changing", ""
	guard, conflict, outdated := "", "", "0::bigint"
	if t.observed {
		guard = " and (before.observed_at > latest.observed_at) is not true"
		conflict = " and (stored.observed_at > excluded.observed_at) is not true"
		outdated = "(select count(*) from before join latest on (BEFORE.KEY) = (LATEST.KEY) where before.observed_at > latest.observed_at)"
	}
	if own {
		source, owners = "owner", " join users owner using (user_id) where "+ofBatch("owner")
		stored = "\n\twhere " + ofBatch("stored")
	}
	return t.fill(`
with latest as materialized (
	select distinct on (KEY) COLUMNS
	from ` + rows + `
	order by KEY, ` + t.newest() + `
), before as materialized (
	select STORED.COLUMNS from TABLE stored join latest on (STORED.KEY) = (LATEST.KEY)` + stored + `
), changing as materialized (
	select LATEST.COLUMNS
	from latest
	left join before on (BEFORE.KEY) = (LATEST.KEY)
	where (before.user_id is null or (BEFORE.STATE) is distinct from (LATEST.STATE))` + guard + `
), merged as (
	insert into TABLE as stored (INSERTED)
	select ` + source + `.SOURCES
	from changing` + owners + `
	order by KEY
	on conflict (KEY) do update set (STATE) = row (EXCLUDED.STATE)
	where (STORED.STATE) is distinct from (EXCLUDED.STATE)` + conflict + `
	returning STORED.COLUMNS, DATE as changed_date, xmax = 0 as inserted
), changed as (
	select merged.user_id, changed_date, inserted, before.DATE as former_date
	from merged
	left join before on (BEFORE.KEY) = (MERGED.KEY)
	where before.user_id is null or (BEFORE.VALUES) is distinct from (MERGED.VALUES)
), changes as (
	select user_id, changed_date as date from changed
	union all
	select user_id, former_date from changed where former_date is not null
)` + record + `
select count(*) filter (where inserted), count(*) filter (where not inserted), ` + outdated + ` from changed`)
}

// newest is the order of rows with one key, of which the first one counts: one without an observation, which replaces any, otherwise the one
// that was observed last, and of several the last one.
func (t table) newest() string {
	if t.observed {
		return "observed_at desc nulls first, line desc"
	}
	return "line desc"
}

// ofBatch is a condition on the users of a table: those of [table.arrayRows].
func ofBatch(table string) string { return table + ".user_id = any ($1::uuid[])" }

func andOfBatch(own bool, table string) string {
	if !own {
		return ""
	}
	return " and " + ofBatch(table)
}

// remove returns the statement that deletes rows by their keys, and counts them. own and record are as in [table.merge].
func (t table) remove(own bool, record string) string {
	return t.fill(`
with changes as (
	delete from TABLE
	where (KEY) in (select KEY from ` + t.arrayRows() + `)` + andOfBatch(own, t.stored) + `
	returning user_id, DATE as date
)` + record + `
select count(*) from changes`)
}

// noteChanges is the part of a statement of an import that notes its changes, rows of a user and a date, until the import records them.
const noteChanges = `, noted as (insert into changed_days select user_id, date from changes)`

// recordChanges returns the part of a statement that records its changes, rows of a user and a date, for webhooks: for each connection
// that may read them and whose client has a webhook. own is as in [table.merge]: a cluster sends an insert to the users' nodes alone if it
// joins no table of clients and generates no number. Whether a connection has lapsed is decided when changes become an event, by a clock that
// is believed.
func (t table) recordChanges(own, notify bool) string {
	if !notify {
		return ""
	}
	return strings.ReplaceAll(`, numbered as materialized (
	select user_id, date, nextval('webhook_changes_change_id_seq') as change_id from changes
), listening as materialized (
	select client_id from webhook_endpoints where stopped_at is null
), recorded as (
	insert into webhook_changes (user_id, client_id, change_id, datasets, first_date, last_date)
	overriding system value
	select c.user_id, c.client_id, min(numbered.change_id), c.scopes & READERS, min(numbered.date), max(numbered.date)
	from numbered
	join connections c on c.user_id = numbered.user_id
	join listening on listening.client_id = c.client_id
	where c.state = 'authorized' and c.scopes & READERS <> 0 and numbered.date >= c.history_from`+andOfBatch(own, "c")+`
	group by c.user_id, c.client_id, c.scopes
)`, "READERS", strconv.Itoa(t.readers)+"::smallint")
}

// fill replaces the words in capitals: TABLE by the name of the table, DATE by the date of a row, KEY, VALUES and COLUMNS by
// lists of its columns, and STORED.KEY and the like by lists of the columns of one of the rows in the statement.
func (t table) fill(statement string) string {
	columns := slices.Concat(t.key, t.state())
	words := []string{}
	for _, row := range []string{"stored", "fresh", "existing", "latest", "before", "merged", "excluded"} {
		columnsOf := func(columns []string) string { return row + "." + strings.Join(columns, ", "+row+".") }
		name := strings.ToUpper(row)
		words = append(words, name+".KEY", columnsOf(t.key), name+".VALUES", columnsOf(t.values), name+".STATE", columnsOf(t.state()), name+".COLUMNS", columnsOf(columns))
	}
	list := strings.Join(columns, ", ")
	inserted, sources := list, list
	if t.createdAt {
		inserted, sources = inserted+", created_at", sources+", connect_now()"
	}
	words = append(words, "TABLE", t.stored, "DATE", t.date, "KEY", strings.Join(t.key, ", "),
		"VALUES", strings.Join(t.values, ", "), "STATE", strings.Join(t.state(), ", "), "COLUMNS", list, "INSERTED", inserted, "SOURCES", sources)
	return strings.NewReplacer(words...).Replace(statement)
}

// arrayRows returns rows for a from clause, given as one array for each column. The line numbers are counted.
func (t table) arrayRows() string {
	arrays := make([]string, len(t.types))
	for i, name := range t.types {
		base, collation, _ := strings.Cut(name, " ")
		arrays[i] = fmt.Sprintf("$%d::%s[] %s", i+1, base, collation)
	}
	return "unnest(" + strings.Join(arrays, ", ") + ") with ordinality as fresh (" +
		strings.Join(t.columns()[1:], ", ") + ", line)"
}
