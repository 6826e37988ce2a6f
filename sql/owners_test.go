// Package owners checks the one door that no linter sees: which domain's statements write which table.
package owners

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// owners are the domains whose statements write a table. All may read it.
var owners = map[string]string{
	"connections":            "oauth",
	"grant_directory":        "oauth",
	"revoked_access_tokens":  "oauth",
	"authorization_requests": "oauth",
	"users":                  "account",
	"user_addresses":         "account",
	"sign_ins":               "account",
	"sign_in_limits":         "account",
	"code_emails":            "account",
	"sign_in_events":         "account",
	"account_sessions":       "account",
	"known_browsers":         "account",
	"notices":                "account",
	"clients":                "client",
	"client_logos":           "client",
	"change_requests":        "client",
	"daily_steps":            "activity",
	"step_corrections":       "activity",
	"cycling_activities":     "activity",
	"cycling_adjustments":    "activity",
	"rate_limits":            "ratelimit",
	"usage_hours":            "usage",
	"usage_minutes":          "usage",
	"usage_days":             "usage",
	"usage_folds":            "usage",
	"latency_hours":          "usage",
	"client_errors":          "usage",
	"client_error_counts":    "usage",
	"webhook_endpoints":      "webhook",
	"webhook_events":         "webhook",
	"webhook_queue":          "webhook",
	"webhook_attempts":       "webhook",
	"webhook_changes":        "webhook",
	"audit_log":              "audit",
	"operator_sessions":      "operators",
	"portal_sessions":        "portal",
	"turns":                  "postgres",
	"keyset_marks":           "credential",
	"database_history":       "postgres",
	"servers":                "servers",
	"database_sizes":         "servers",
	"sweeps":                 "servers",
}

// guests are the domains that write a table of another domain, with the reason.
var guests = map[string][]string{
	// The statement that makes a change also writes its audit entry and its event, so that none of them exists alone.
	"audit_log":      {"oauth", "account", "client", "webhook", "activity", "operators", "portal"},
	"webhook_events": {"oauth"},
	"webhook_queue":  {"oauth"},
	// A client that is disabled or offboarded has no sessions, in any order of commits.
	"portal_sessions": {"client"},
	// The statement that makes a change adds the email about it.
	"notices": {"client", "oauth"},
}

var (
	comment = regexp.MustCompile(`--.*`)
	write   = regexp.MustCompile(`(?i)\b(?:insert\s+into|delete\s+from|merge\s+into|truncate(?:\s+table)?)\s+(?:only\s+)?(\w+)` +
		// Neither "for update" nor "do update".
		`|\bupdate\s+(?:only\s+)?(\w+)(?:\s+as)?(?:\s+\w+)?\s+set\b`)
	table = regexp.MustCompile(`(?i)\bcreate\s+(?:unlogged\s+)?table\s+(\w+)`)
)

// matches are what the groups of a pattern hold in a file, without its comments.
func matches(t *testing.T, pattern *regexp.Regexp, file string) (found []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range pattern.FindAllSubmatch(comment.ReplaceAll(text, nil), -1) {
		for _, group := range match[1:] {
			if len(group) > 0 {
				found = append(found, string(group))
			}
		}
	}
	return found
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		t.Fatalf("no files %s, %v", pattern, err)
	}
	return found
}

// sources are the files of the program and of its helpers for tests, at every depth of the tree.
func sources(t *testing.T) (list []string) {
	t.Helper()
	for _, root := range []string{"../internal", "../cmd"} {
		if err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
				list = append(list, name)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

func TestDomainsWriteTheirOwnTables(t *testing.T) {
	t.Parallel()
	written := map[string][]string{} // by table: the domains
	for _, file := range files(t, "*/*.sql") {
		domain := filepath.Dir(file)
		for _, name := range matches(t, write, file) {
			written[name] = append(written[name], domain)
			if owner, known := owners[name]; !known {
				t.Errorf("%s writes %s, which has no owner here", file, name)
			} else if domain != owner && !slices.Contains(guests[name], domain) {
				t.Errorf("%s writes %s, which is written by the domain %s alone", file, name, owner)
			}
		}
	}
	for name, domains := range guests {
		for _, domain := range domains {
			if !slices.Contains(written[name], domain) {
				t.Errorf("%s may write %s and does not: end the exception", domain, name)
			}
		}
	}
}

// Every transition of a connection is read in one place.
func TestConnectionsAreWrittenInOneFile(t *testing.T) {
	t.Parallel()
	for _, file := range files(t, "*/*.sql") {
		writes := slices.Contains(matches(t, write, file), "connections")
		if want := file == filepath.Join("oauth", "connection.sql"); writes != want {
			t.Errorf("%s writes connections: %t, want %t", file, writes, want)
		}
	}
}

func TestEveryTableHasAnOwner(t *testing.T) {
	t.Parallel()
	var tables []string
	for _, file := range files(t, "../migrations/*.sql") {
		tables = append(tables, matches(t, table, file)...)
	}
	for _, name := range tables {
		if owners[name] == "" {
			t.Errorf("the table %s has no owner here", name)
		}
	}
	for name := range owners {
		if !slices.Contains(tables, name) {
			t.Errorf("there is no table %s", name)
		}
	}
}

// foundation are the packages that know nothing of the service, as ARCHITECTURE.md has them.
func foundation(t *testing.T) (folders []string) {
	t.Helper()
	text, err := os.ReadFile("../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(text), "\n  foundation ")
	part, _, _ = strings.Cut(part, "\n\n")
	for line := range strings.Lines(part) {
		if strings.HasPrefix(line, "internal/") {
			folders = append(folders, strings.Fields(line)[0])
		}
	}
	if len(folders) < 10 {
		t.Fatalf("the foundation is %q", folders)
	}
	return folders
}

// named finds the table that a text reads, writes or defines.
var named = regexp.MustCompile(`(?i)\b(?:from|join|into|update|table|only|references|lock)\s+(\w+)`)

// A package of the foundation names a table in its statements only if the table is its own.
func TestFoundationNamesNoTableOfADomain(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	for _, folder := range foundation(t) {
		for _, file := range files(t, "../"+folder+"/*.go") {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(tree, func(node ast.Node) bool {
				literal, is := node.(*ast.BasicLit)
				if !is || literal.Kind != token.STRING {
					return true
				}
				text, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				names := []string{text} // as lists of tables have them
				for _, match := range named.FindAllStringSubmatch(text, -1) {
					names = append(names, match[1])
				}
				for _, name := range names {
					switch owner := owners[name]; {
					case owner == path.Base(folder):
						found[name] = true
					case owner != "" && (name != text || strings.Contains(name, "_")):
						t.Errorf("%s names the table %s, which belongs to %s", file, name, owner)
					}
				}
				return true
			})
		}
	}
	for _, own := range []string{"keyset_marks", "database_history"} {
		if !found[own] {
			t.Errorf("the search does not find %s", own)
		}
	}
}

// The rules of clients and connections are SQL functions of the migrations (is_active, is_authorized, connection_state).
var repeatedRule = regexp.MustCompile(`(?i)\brefresh_deadline\s*[<>]|\bstatus\s*(?:(?:=|<>)\s*'active'|[!=]=\s*"?active\b)`)

func TestStatementsCallTheRules(t *testing.T) {
	t.Parallel()
	for _, file := range append(sources(t), files(t, "*/*.sql")...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range repeatedRule.FindAll(text, -1) {
			t.Errorf("%s repeats a rule: %s", file, found)
		}
	}
}

// Two shapes that PostgreSQL takes and a Citus cluster refuses (docs/scaling.md), where a statement's rows come from several shards.
var refusedByCitus = map[string]*regexp.Regexp{
	"a row has no columns":        regexp.MustCompile(`(?i)\bselect\s+from\b`),
	"returning asks for the time": regexp.MustCompile(`(?i)\breturning\b(?:[^;()]|\([^()]*\))*\(?[^;()]*now\(\)`),
}

func TestStatementsThatAClusterRefuses(t *testing.T) {
	t.Parallel()
	for why, shape := range refusedByCitus {
		for _, file := range files(t, "*/*.sql") {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range shape.FindAll(comment.ReplaceAll(text, nil), -1) {
				t.Errorf("%s: %s: %s", file, why, found)
			}
		}
	}
}

// The time that a server expects (package clock) is an argument that the pool fills in, since sqlc gives it the pool's type. The foundation and the
// votes of the servers know of it, and no caller of a statement does.
var (
	expected       = regexp.MustCompile(`\bexpected\b`)
	filledIn       = regexp.MustCompile(`@expected::pg_catalog\.timestamptz\b`)
	typeOfExpected = regexp.MustCompile(`(?i)\bpg_catalog\.timestamptz\b|\bwith time zone\b`)
	namesExpected  = regexp.MustCompile(`\bExpected\b|\.(?:Believe|Jumped|Doubt)\(`)
)

func TestExpectedIsFilledIn(t *testing.T) {
	t.Parallel()
	filled := 0
	for _, file := range files(t, "*/*.sql") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text = comment.ReplaceAll(text, nil)
		n := len(filledIn.FindAll(text, -1))
		if filled += n; len(expected.FindAll(text, -1)) != n || len(typeOfExpected.FindAll(text, -1)) != n {
			t.Errorf("%s: what is expected, and nothing else, is written @expected::pg_catalog.timestamptz", file)
		}
	}
	if filled == 0 {
		t.Error("no statement expects a time")
	}
	for _, file := range sources(t) {
		if strings.HasPrefix(file, "../internal/foundation/postgres/") || strings.HasPrefix(file, "../internal/admin/servers/") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if found := namesExpected.Find(text); found != nil {
			t.Errorf("%s: %s: the pool knows what is expected", file, found)
		}
	}
}

// PostgreSQL refuses the names of time zones that its machine does not have, so no statement gives it one but UTC. The days of users are of
// internal/foundation/timezone.
var timezoneOfPostgres = regexp.MustCompile(`(?i)\bat time zone\s+(\S+)|\btimezone\s*\(|\bpg_timezone_\w+|\bset (?:local |session )?(?:time zone\b|timezone (?:to|=) ')`)

func TestStatementsNameNoTimezone(t *testing.T) {
	t.Parallel()
	utc := 0
	for _, file := range slices.Concat(files(t, "*/*.sql"), files(t, "../migrations/*.sql"), sources(t)) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range timezoneOfPostgres.FindAllSubmatch(comment.ReplaceAll(text, nil), -1) {
			if strings.HasPrefix(string(found[1]), "'UTC'") {
				utc++
			} else if !strings.HasPrefix(file, "../internal/testing/") {
				t.Errorf("%s: %s", file, found[0])
			}
		}
	}
	if utc == 0 {
		t.Error("no statement converts to UTC: the pattern finds nothing")
	}
}
