package schema

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The migrations of the service lock no table that may be large. Nor do those that `make test-upgrade` has a next release make.
func TestMigrations(t *testing.T) {
	t.Parallel()
	var files, texts []string
	for _, folder := range []string{"../../migrations", "../../internal/testing/storm/testdata/next", "../../internal/testing/storm/testdata/after"} {
		found, err := filepath.Glob(folder + "/*.sql")
		if err != nil || len(found) == 0 {
			t.Fatalf("no migrations in %s: %v", folder, err)
		}
		files = append(files, found...)
	}
	locks := regexp.MustCompile(`(?mi)^--.*\blocks\b`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
		if strings.HasPrefix(file, "../../migrations/") && filepath.Base(file) > "0011" && !locks.Match(text) {
			t.Errorf("%s does not say what it locks, and for how long", file)
		}
	}
	found, err := Check(texts)
	if err != nil {
		t.Fatal(err)
	}
	for i, wrong := range found {
		t.Errorf("%s:\n%s", files[i], strings.Join(wrong, "\n"))
	}
}

const (
	first = "create domain d as smallint check (value > 0); create table a (x int, y text); create table b (x int primary key)"
	// How an index is built on a table in use.
	concurrently = "-- +goose NO TRANSACTION\nset lock_timeout = 0; drop index concurrently if exists i; create index concurrently i on a (x); reset lock_timeout"
	oldest       = "create or replace function connect_oldest_program() returns bigint language sql immutable as 'select 12::bigint'; "
)

// up is a migration that has a way up. A line before it may say that it runs outside a transaction.
func up(statements string) string {
	return "-- +goose Up\n" + statements + ";\n-- +goose Down\ndrop everything that is not read"
}

// apart has each statement be a transaction of its own.
func apart(statements string) string { return "-- +goose NO TRANSACTION\n" + statements }

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		next []string
		want string // a part of what is wrong, or nothing
	}{
		"all of a new table":               {[]string{"create table c (x int); create index on c (x); alter table c alter column x type bigint; alter table c alter column x set not null"}, ""},
		"a table that refers to an old":    {[]string{"create table c (x int references b)"}, ""},
		"a nullable column":                {[]string{"alter table a add column z timestamptz"}, ""},
		"a constant default":               {[]string{"alter table a add column z int not null default -1, add column w text default ''::text"}, ""},
		"a default that is computed":       {[]string{"alter table a add column z uuid default gen_random_uuid()"}, "not a constant"},
		"a default that is the clock":      {[]string{"alter table a add column z timestamptz not null default clock_timestamp()"}, "not a constant"},
		"a column that must have a value":  {[]string{"alter table a add column z int not null"}, "need a default"},
		"a column of a domain":             {[]string{"alter table a add column z d"}, "type d rewrites"},
		"a serial column":                  {[]string{"alter table a add column z bigserial"}, "bigserial rewrites"},
		"a checked column":                 {[]string{"alter table a add column z int check (z > 0)"}, "CONSTR_CHECK"},
		"a unique column":                  {[]string{"alter table a add column z int unique"}, "CONSTR_UNIQUE"},
		"a column that refers":             {[]string{"alter table a add column z int references b"}, "CONSTR_FOREIGN"},
		"a generated column":               {[]string{"alter table a add column z int generated always as (x + 1) stored"}, "CONSTR_GENERATED"},
		"an identity column":               {[]string{"alter table a add column z int generated always as identity"}, "CONSTR_IDENTITY"},
		"an index":                         {[]string{"create index on a (x)"}, "concurrently"},
		"an index of another schema name":  {[]string{"create unique index on public.a (x)"}, "concurrently"},
		"concurrently":                     {[]string{concurrently}, ""},
		"concurrently in a transaction":    {[]string{"create index concurrently i on a (x)"}, "NO TRANSACTION"},
		"concurrently, impatient":          {[]string{"-- +goose NO TRANSACTION\ndrop index concurrently if exists i; create index concurrently i on a (x)"}, "lock_timeout"},
		"concurrently, not again":          {[]string{strings.Replace(concurrently, "drop index concurrently if exists i;", "", 1)}, "half-way"},
		"concurrently, if not exists":      {[]string{strings.Replace(concurrently, "concurrently i on", "concurrently if not exists i on", 1)}, "half-way"},
		"more without a transaction":       {[]string{strings.Replace(concurrently, "reset", "update a set x = 1 where x = 2; reset", 1)}, "nothing else"},
		"another type":                     {[]string{"alter table a alter column x type bigint"}, "AT_AlterColumnType"},
		"a check":                          {[]string{"alter table a add constraint c check (x > 0)"}, "not valid"},
		"a check not valid":                {[]string{"alter table a add constraint c check (x > 0) not valid"}, ""},
		"validated later":                  {[]string{"alter table a add constraint c check (x > 0) not valid", "alter table a validate constraint c"}, ""},
		"validated at once":                {[]string{"alter table a add constraint c check (x > 0) not valid; alter table a validate constraint c"}, "a migration of its own"},
		"a foreign key":                    {[]string{"alter table a add foreign key (x) references b"}, "not valid"},
		"a foreign key not valid":          {[]string{"alter table a add constraint c foreign key (x) references b not valid"}, ""},
		"a primary key":                    {[]string{"alter table a add primary key (x)"}, "builds an index"},
		"a unique constraint by its index": {[]string{"alter table a add constraint c unique using index i"}, ""},
		"not null":                         {[]string{"alter table a alter column x set not null"}, "is not null"},
		"not null of what is not proven":   {[]string{"alter table a add constraint c check (x is not null) not valid", "alter table a alter column x set not null"}, "is not null"},
		"not null of what is proven": {[]string{"alter table a add constraint c check (x is not null) not valid",
			"alter table a validate constraint c", "alter table a alter column x set not null, drop constraint c"}, ""},
		"not null of another column": {[]string{"alter table a add constraint c check (x is not null) not valid",
			"alter table a validate constraint c", "alter table a alter column y set not null"}, "is not null"},
		"another default":             {[]string{"alter table a alter column x set default 7, alter column x drop not null, set (fillfactor = 70)"}, ""},
		"a column dropped":            {[]string{"alter table a drop column x"}, "connect_oldest_program"},
		"a column dropped, and said":  {[]string{oldest + "alter table a drop column x"}, ""},
		"a column renamed":            {[]string{"alter table a rename column x to z"}, "connect_oldest_program"},
		"a table dropped":             {[]string{"drop table a"}, "connect_oldest_program"},
		"a table dropped, and said":   {[]string{oldest + "drop table a"}, ""},
		"two tables at once":          {[]string{"alter table a add column z int; alter table b add column z int"}, "deadlock"},
		"one table twice":             {[]string{"alter table a add column z int; alter table a add column w int"}, ""},
		"two tables, each by itself":  {[]string{apart("alter table a add column if not exists z int; alter table b add column if not exists z int")}, ""},
		"a column twice":              {[]string{apart("alter table a add column z int")}, "if not exists"},
		"a column that rewrites":      {[]string{apart("alter table a add column if not exists z d")}, "type d rewrites"},
		"a check twice":               {[]string{apart("alter table a add constraint c check (x > 0) not valid")}, "drop it in a statement before"},
		"a check dropped twice":       {[]string{apart("alter table a drop constraint c")}, "if exists"},
		"a check again":               {[]string{apart("alter table a drop constraint if exists c; alter table a add constraint c check (x > 0) not valid; alter table a validate constraint c")}, ""},
		"a check of another table":    {[]string{apart("alter table b drop constraint if exists c; alter table a add constraint c check (x > 0) not valid")}, "drop it in a statement before"},
		"validated under a lock":      {[]string{apart("alter table a validate constraint c, add column if not exists z int")}, "a statement of its own"},
		"tables beside an index":      {[]string{apart("alter table a add column if not exists z int; create index concurrently i on a (z)")}, "nothing else"},
		"all rows updated":            {[]string{"update a set x = 1"}, "batches"},
		"one row updated":             {[]string{"update a set x = 1 where y = 'z'"}, ""},
		"all rows deleted":            {[]string{"delete from a"}, "batches"},
		"truncate":                    {[]string{"truncate a"}, "TruncateStmt"},
		"a lock":                      {[]string{"lock table a"}, "LockStmt"},
		"vacuum full":                 {[]string{"vacuum full a"}, "VacuumStmt"},
		"cluster":                     {[]string{"cluster a using i"}, "ClusterStmt"},
		"reindex":                     {[]string{"reindex table a"}, "ReindexStmt"},
		"logged":                      {[]string{"alter table a set unlogged"}, "AT_SetUnLogged"},
		"a tablespace":                {[]string{"alter table a set tablespace t"}, "AT_SetTableSpace"},
		"code that cannot be read":    {[]string{"do $$ begin lock table a; end $$"}, "DoStmt"},
		"a right":                     {[]string{"grant usage on sequence s to public"}, ""},
		"a right that is taken":       {[]string{"revoke usage on sequence s from public"}, "may need the right"},
		"a function and rows of data": {[]string{"create function f() returns int language sql as 'select 1; select 2'; insert into a (x) values (1)"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			migrations := []string{up(first)}
			for _, next := range test.next {
				migrations = append(migrations, up(next))
			}
			found, err := Check(migrations)
			if err != nil {
				t.Fatal(err)
			}
			// All but the last are there to prepare it.
			got := strings.Join(found[len(migrations)-1], "\n")
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("found %q, want %q", got, test.want)
			}
			delete(found, len(migrations)-1)
			if len(found) > 0 {
				t.Errorf("found before: %v", found)
			}
		})
	}
}

func TestCheckUnreadable(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "create table a (x int)", up("create tabel a")} {
		if _, err := Check([]string{text}); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}
