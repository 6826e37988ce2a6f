package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// limit is what PostgreSQL or net/http can do alone.
type limit struct {
	name       string
	statements []string // of sql/, by name
	// choose is commands of pgbench that choose the user :u and the client :c of a turn. Each of pgbench's clients counts its
	// turns in :n from 0, and over all clients no two turns have the same :k.
	choose string
	// args are values in place of those of arguments. Constants let PostgreSQL plan a read once, as the service's values do.
	args  map[string]string
	reset string // SQL before it
	// effect counts what the turns have done: at least as much as pgbench says, or it measured statements that found nothing
	// to do.
	effect string
	// work is how many turns find something to do; 0: all. A fast machine is through with them before the time is over, and
	// then waits for the rest of it, which does not count.
	work int

	constant bool // of net/http instead, as large as the operation's response
}

// arguments are the values of the statements' arguments in a turn. Each hash is that of the connections that populate makes.
var arguments = map[string]string{
	"user_id": "md5('user ' || :u)::uuid", "client_id": "md5('client ' || :c)::uuid", "secret_hash": fmt.Sprintf(`'\x%x'`, secretHash),
	"version": "1", "scopes": "7", "issued_at": "now()", "redirect_uri": "'" + callback + "'",
	"code_version": "0", "code_expires_at": "now() + interval '1 hour'", "history_from": "current_date",
	"generation": "1 + :n", "presented_hash": limitHash, "new_hash": limitHash, "refresh_hash": limitHash, "inactivity": "interval '2160 hours'",
	"token_id": "gen_random_uuid()", "expires_at": "now() + interval '1 hour'", "expected": "now()",
	"first_date": "current_date - 30", "last_date": "current_date",
	"since": "current_date - 30", "after_time": "current_date - 30", "after_source_id": "''", "until": "current_date + 1",
	// Any state is the expected one, and the next has one lease.
	"old": "state", "next": `'{"version":1,"credit":60000000000000,"at":1764112345678901,"leases":[{"end":1764112375678901,"server":1234567890,"count":1}]}'`,
}

var (
	statementName = regexp.MustCompile(`(?m)^-- name: (\w+) :\w+\n`)
	argument      = regexp.MustCompile(`@([a-z_]+)|sqlc\.n?arg\(([a-z_]+)\)`)
	comment       = regexp.MustCompile(`(?m)^\s*--.*\n`)
)

// readStatements reads those of a directory's folders, by name.
func readStatements(dir string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.sql"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no statements in %s: run this at the top of the checkout", dir)
	}
	found := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			return nil, err
		}
		names := statementName.FindAllStringSubmatch(string(text), -1)
		for i, body := range statementName.Split(string(text), -1)[1:] {
			found[names[i][1]] = strings.TrimSpace(comment.ReplaceAllString(body, ""))
		}
	}
	return found, nil
}

// statement is one of statements, with the values of a turn.
func (l limit) statement(statements map[string]string, name string) (string, error) {
	statement, found := statements[name]
	if !found {
		return "", fmt.Errorf("there is no statement %s", name)
	}
	for _, match := range argument.FindAllStringSubmatch(statement, -1) {
		name := cmp.Or(match[1], match[2])
		value := cmp.Or(l.args[name], arguments[name])
		if value == "" {
			return "", fmt.Errorf("no value for %s in %s", name, statement)
		}
		statement = strings.Replace(statement, match[0], "("+value+")", 1)
	}
	return statement, nil
}

// script is the limit for pgbench.
func (l limit) script(statements map[string]string) (string, error) {
	script := l.choose
	for _, name := range l.statements {
		statement, err := l.statement(statements, name)
		if err != nil {
			return "", err
		}
		script += statement + "\n"
	}
	if l.work > 0 {
		script = fmt.Sprintf("\\if :k < %d\n%s\\else\n\\sleep 20 ms\n\\endif\n", l.work, script)
	}
	return "\\set n :n + 1\n\\set k :n * :connections + :client_id\n" + script, nil
}

func (s *stage) measureLimit(ctx context.Context, l limit, connections int) (sample sample, err error) {
	script, err := l.script(s.statements)
	if err != nil {
		return sample, err
	}
	if _, err := s.conn.Exec(ctx, l.reset); err != nil {
		return sample, err
	}
	if sample, err = s.pgbench(ctx, script, connections, l.work); err != nil || l.effect == "" {
		return sample, err
	}
	var done int
	if err := s.conn.QueryRow(ctx, "select ("+l.effect+")::int").Scan(&done); err != nil {
		return sample, err
	}
	if done < len(sample.Latencies) {
		return sample, fmt.Errorf("%d transactions did something %d times", len(sample.Latencies), done)
	}
	return sample, nil
}

// pgbench runs a script in a loop on so many connections, in its prepared mode.
func (s *stage) pgbench(ctx context.Context, script string, connections, work int) (sample, error) {
	dir, err := os.MkdirTemp(s.dir, "pgbench-")
	if err != nil {
		return sample{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.WriteFile(filepath.Join(dir, "script.sql"), []byte(script), 0o600); err != nil {
		return sample{}, err
	}
	cmd := exec.CommandContext(ctx, s.database.Program("pgbench"), "--no-vacuum", "--protocol=prepared", "--file=script.sql",
		"--client="+strconv.Itoa(connections), "--jobs="+strconv.Itoa(min(connections, 2)),
		"--time="+strconv.Itoa(s.Seconds), "--log", "--log-prefix=log", "-Dconnections="+strconv.Itoa(connections), "-Dn=-1")
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "PGDATABASE=" + s.database.URL()}
	if out, err := cmd.CombinedOutput(); err != nil {
		first, _, _ := strings.Cut(string(out), "\n") // the others repeat it for each client
		return sample{}, fmt.Errorf("pgbench: %w: %s", err, first)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "log*"))
	if err != nil {
		return sample{}, err
	}
	return readPgbenchLogs(logs, connections, work)
}

// readPgbenchLogs has a line for each transaction: client, its count, latency in µs, script, time in s and µs. The first
// transaction of a client, which prepares the statements, is left out, and so are those that came after the work.
func readPgbenchLogs(files []string, connections, work int) (sample sample, err error) {
	var first, last time.Time
	for _, name := range files {
		text, err := os.ReadFile(filepath.Clean(name))
		if err != nil {
			return sample, err
		}
		for line := range strings.Lines(string(text)) {
			var client, count int
			var micros, script, seconds, fraction int64
			if _, err := fmt.Sscan(line, &client, &count, &micros, &script, &seconds, &fraction); err != nil {
				return sample, fmt.Errorf("pgbench's log: %q: %w", line, err)
			}
			if count == 1 || work > 0 && client+(count-1)*connections >= work {
				continue
			}
			latency, ended := time.Duration(micros)*time.Microsecond, time.Unix(seconds, fraction*1000)
			if began := ended.Add(-latency); first.IsZero() || began.Before(first) {
				first = began
			}
			if ended.After(last) {
				last = ended
			}
			sample.Latencies = append(sample.Latencies, latency)
		}
	}
	sample.Elapsed = last.Sub(first)
	return sample, nil
}
