//go:build citus

package owners

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"connect-svc/internal/testing/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var (
	generated = regexp.MustCompile("(?s)const \\w+ = `-- name: (\\w+) :\\w+\n(.*?)`")
	taskCount = regexp.MustCompile(`Task Count: (\d+)`)
)

// statements are the generated ones, by domain and name.
func statements(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, file := range files(t, "../gen/db/*/*.go") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range generated.FindAllStringSubmatch(string(text), -1) {
			found[filepath.Base(filepath.Dir(file))+"."+match[1]] = match[2]
		}
	}
	if len(found) < 80 {
		t.Fatalf("%d statements", len(found))
	}
	return found
}

// values are literals of the types that statements take: those of nothing that exists.
var values = map[string]string{
	"uuid": "00000000-0000-4000-8000-000000000001", "uuid[]": "{00000000-0000-4000-8000-000000000001}",
	"bytea": `\x` + strings.Repeat("00", 32), "bytea[]": "{}", "text": "x", "text[]": "{x}", "boolean": "true",
	"smallint": "1", "smallint[]": "{1}", "integer": "1", "integer[]": "{1}", "bigint": "1", "bigint[]": "{1}", "real": "1",
	"date": "2026-01-01", "date[]": "{2026-01-01}", "interval": "1 hour", "double precision": "1",
	"timestamp with time zone": "2026-01-01Z", "timestamp with time zone[]": "{2026-01-01Z}",
	"timestamp without time zone": "2026-01-01", "timestamp without time zone[]": "{2026-01-01}",
	"jsonb": "{}", "jsonb[]": "{null}", "scope_set": "1",
}

// Every generated statement works from every node, and all but those that docs/scaling.md lists ask one shard of a table.
func TestStatementsOnACluster(t *testing.T) {
	db := pgtest.New(t)
	document, err := os.ReadFile("../docs/scaling.md")
	if err != nil {
		t.Fatal(err)
	}
	all := statements(t)
	several := map[string]bool{} // by name, as the document has it
	for _, url := range db.URLs {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
		for _, name := range slices.Sorted(maps.Keys(all)) {
			plan, err := try(t.Context(), conn, all[name])
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			shards := "one"
			for _, count := range taskCount.FindAllStringSubmatch(plan, -1) {
				if count[1] != "1" && count[1] != "0" {
					_, plain, _ := strings.Cut(name, ".")
					shards, several[plain] = "several", true
				}
			}
			if url == db.URLs[0] {
				t.Logf("%-30s %s, in %d parts", name, shards, len(taskCount.FindAllString(plan, -1)))
			}
		}
	}
	_, section, _ := strings.Cut(string(document), "### What asks several shards")
	section, _, _ = strings.Cut(section, "\n#")
	for _, name := range slices.Sorted(maps.Keys(several)) {
		if !strings.Contains(section, "`"+name+"`") {
			t.Errorf("%s asks several shards, and docs/scaling.md does not say so", name)
		}
	}
	for _, name := range regexp.MustCompile("`([A-Z]\\w+)`").FindAllStringSubmatch(section, -1) {
		if !several[name[1]] {
			t.Errorf("docs/scaling.md says that %s asks several shards", name[1])
		}
	}
}

// try runs a statement, takes it back, and returns its plan. Values that match nothing are not an error of the statement.
func try(ctx context.Context, conn *pgx.Conn, statement string) (string, error) {
	defer func() { _, _ = conn.Exec(ctx, "rollback; deallocate all", pgx.QueryExecModeSimpleProtocol) }()
	if _, err := conn.Exec(ctx, "prepare tried as "+statement, pgx.QueryExecModeSimpleProtocol); err != nil {
		return "", err
	}
	var types []string
	if err := conn.QueryRow(ctx, "select parameter_types::text[] from pg_prepared_statements where name = 'tried'", pgx.QueryExecModeSimpleProtocol).Scan(&types); err != nil {
		return "", err
	}
	literals, filled, execute := make([]string, len(types)), statement, "begin; execute tried"
	for i, name := range slices.Backward(types) {
		value, known := values[name]
		if !known {
			return "", fmt.Errorf("no value of type %s", name)
		}
		literals[i] = "'" + value + "'::" + name
		filled = strings.ReplaceAll(filled, fmt.Sprintf("$%d", i+1), "("+literals[i]+")")
	}
	if len(literals) > 0 {
		execute += "(" + strings.Join(literals, ", ") + ")"
	}
	rows, err := conn.Query(ctx, "explain (costs off) "+filled, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return "", err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return "", err
	}
	_, err = conn.Exec(ctx, execute, pgx.QueryExecModeSimpleProtocol)
	if refusal := (*pgconn.PgError)(nil); errors.As(err, &refusal) && (refusal.Code[:2] == "22" || refusal.Code[:2] == "23") {
		err = nil
	}
	return strings.Join(lines, "\n"), err
}
