package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// pgbench runs a script in a loop on so many connections, in its prepared mode. What is measured ends with the time, or
// before with the work of the script: see limit.
func (s *stage) pgbench(ctx context.Context, script string, connections, work int) (figures, error) {
	dir, err := os.MkdirTemp(s.dir, "pgbench-")
	if err != nil {
		return figures{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "script.sql")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		return figures{}, err
	}
	config, err := pgx.ParseConfig(s.database.URL())
	if err != nil {
		return figures{}, err
	}
	cmd := exec.CommandContext(ctx, s.pgbenchProgram, "--no-vacuum", "--protocol=prepared", "--file="+file,
		"--client="+strconv.Itoa(connections), "--jobs="+strconv.Itoa(min(connections, 2)),
		"--time="+strconv.Itoa(s.settings.seconds), "--log", "--log-prefix="+filepath.Join(dir, "log"),
		"-Dconnections="+strconv.Itoa(connections), "-Dk=-1",
		"-h", config.Host, "-p", strconv.Itoa(int(config.Port)), "-U", config.User, config.Database)
	cmd.Dir = dir
	cmd.Env = []string{"PGPASSWORD=" + config.Password, "PATH=" + os.Getenv("PATH")}
	if out, err := cmd.CombinedOutput(); err != nil {
		return figures{}, fmt.Errorf("pgbench: %w: %s", err, firstError(string(out)))
	}
	logs, err := filepath.Glob(filepath.Join(dir, "log*"))
	if err != nil {
		return figures{}, err
	}
	return readPgbenchLogs(logs, connections, work)
}

// errIdle happens on a busy machine, whose disk can stand still for a second.
var errIdle = errors.New("pgbench got through no transactions: try a longer -seconds")

// firstError is what pgbench complained of, which it repeats for each worker.
func firstError(output string) string {
	for line := range strings.Lines(output) {
		if strings.Contains(strings.ToLower(line), "error:") {
			return strings.TrimSpace(line)
		}
	}
	return strings.TrimSpace(output)
}

// readPgbenchLogs has a line for each transaction: worker, its count, latency in µs, script, time in s and µs. The first
// transaction of a worker, which prepares the statements, is left out, and so are those that came after the work.
func readPgbenchLogs(files []string, connections, work int) (figures, error) {
	var latencies []time.Duration
	first, last := int64(math.MaxInt64), int64(0)
	for _, name := range files {
		file, err := os.Open(filepath.Clean(name))
		if err != nil {
			return figures{}, err
		}
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			fields := strings.Fields(lines.Text())
			if len(fields) < 6 {
				continue
			}
			latency, _ := strconv.ParseInt(fields[2], 10, 64)
			seconds, _ := strconv.ParseInt(fields[4], 10, 64)
			micros, _ := strconv.ParseInt(fields[5], 10, 64)
			ended := seconds*1_000_000 + micros
			worker, _ := strconv.Atoi(fields[0])
			count, _ := strconv.Atoi(fields[1])                                 // from 1
			if count <= 1 || work > 0 && worker+(count-1)*connections >= work { // see countUp
				continue
			}
			first, last = min(first, ended-latency), max(last, ended)
			latencies = append(latencies, time.Duration(latency)*time.Microsecond)
		}
		_ = file.Close()
	}
	if len(latencies) == 0 || last <= first {
		return figures{}, errIdle
	}
	slices.Sort(latencies)
	return figures{
		Count: len(latencies),
		Rate:  float64(len(latencies)) / (float64(last-first) / 1e6),
		P50:   milliseconds(percentile(latencies, 50)),
		P99:   milliseconds(percentile(latencies, 99)),
	}, nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// findPgbench takes the program itself: what Debian has on the path is a wrapper.
func findPgbench() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pgbench")
	if len(found) > 0 {
		slices.Sort(found)
		return found[len(found)-1], nil
	}
	program, err := exec.LookPath("pgbench")
	if err != nil {
		return "", errors.New("pgbench is not installed: it comes with PostgreSQL (Debian: apt-get install postgresql)")
	}
	return program, nil
}
