package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/testing/pgtest"
)

var updateActs = flag.Bool("update-acts", false, "write testdata/acts.golden anew")

// acts are the groups whose commands call the operator API.
var acts = []string{"client", "user", "connection", "audit", "webhook", "adjust", "remove", "find", "usage", "report"}

// transcript is what commands print, in the order in which they were typed.
type transcript struct {
	*testing.T
	bytes.Buffer
	env  []string
	ids  map[string]string
	know []string // ids that come next in place of $1, $2 …
}

var (
	uuids    = regexp.MustCompile(`[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}|msg_[0-9a-f]{32}`)
	instants = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`)
	days     = regexp.MustCompile(`\d{4}-\d\d-\d\d`)
	vary     = regexp.MustCompile(`(svci_|whsec_|/open/)[A-Za-z0-9_+/=-]+|"id": \d+|\b\d+ ms\b|"duration_ms": \d+|"webhook_timestamp": \d+`)
	figure   = regexp.MustCompile(`\d+`)
)

// same replaces what differs from run to run by something as long.
func (t *transcript) same(text string) string {
	text = uuids.ReplaceAllStringFunc(text, func(id string) string {
		if t.ids[id] == "" {
			number := fmt.Sprintf("%012d", len(t.ids)+1)
			t.ids[id] = "00000000-0000-0000-0000-" + number
			if strings.HasPrefix(id, "msg_") {
				t.ids[id] = "msg_" + strings.Repeat("0", 20) + number
			}
		}
		return t.ids[id]
	})
	text = instants.ReplaceAllString(text, "0000-00-00T00:00:00.000Z")
	text = days.ReplaceAllStringFunc(text, func(day string) string {
		if at, err := time.Parse(time.DateOnly, day); err == nil && time.Since(at).Abs() < 60*24*time.Hour {
			return "0000-00-00"
		}
		return day
	})
	return vary.ReplaceAllStringFunc(text, func(part string) string {
		for _, before := range []string{"svci_", "whsec_", "/open/"} {
			if strings.HasPrefix(part, before) {
				return before + "SECRET"
			}
		}
		return figure.ReplaceAllString(part, "0")
	})
}

// run carries out a command line whose parts may be quoted. With an answer there is somebody at a terminal who gives it.
func (t *transcript) run(answer, line string) outcome {
	t.Helper()
	var args []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			args = append(args, part)
			continue
		}
		args = append(args, strings.Fields(part)...)
	}
	for i, arg := range args {
		for n, id := range t.know {
			arg = strings.ReplaceAll(arg, fmt.Sprintf("$%d", n+1), id)
		}
		args[i] = arg
	}
	var stdout, stderr bytes.Buffer
	p := &program{t.Context(), args, t.env, strings.NewReader(answer), &stdout, &stderr, answer != "", nil}
	status := p.run()
	fmt.Fprintf(t, "$ %s\n%s", line, t.same(stdout.String()))
	for said := range strings.Lines(t.same(stderr.String())) {
		fmt.Fprintf(t, "! %s", said)
	}
	fmt.Fprintf(t, "= %d\n\n", status)
	return outcome{status, stdout.String(), stderr.String()}
}

// both runs a command for people and for programs.
func (t *transcript) both(line string) {
	t.Helper()
	t.run("", line)
	t.run("", line+" --output json")
}

// next makes the first id that a command prints the next one to use.
func (t *transcript) next(of outcome) {
	t.Helper()
	id := uuids.FindString(of.stdout)
	if id == "" {
		t.Fatalf("no id in %q, %q", of.stdout, of.stderr)
	}
	t.know = append(t.know, id)
}

// Every --help, and what every command on the operator API prints for people and for programs, asks, refuses and answers with, stands
// in testdata/acts.golden: run with -update-acts after an intended change, and read the difference.
func TestActs(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := &transcript{T: t, env: append(allSettings(t, db), "CONNECT_OPERATOR=grace"), ids: map[string]string{}}
	help := func(words ...string) {
		fmt.Fprintf(s, "$ %s --help\n%s\n", strings.Join(words, " "), succeed(t, nil, "", append(words, "--help")...))
	}
	help()
	for _, name := range acts {
		help(name)
	}
	for _, leaf := range modelOf(t).Leaves(false) {
		if words := path(leaf); len(words) > 1 && slices.Contains(acts, words[0]) {
			help(words...)
		}
	}

	// Partners: $1 has a webhook, $2 has not.
	s.next(s.run("", "client create --name 'Walk Rewards' --callback https://partner.example/cb --scope daily_steps:read --scope cycling_daily:read "+
		"--webhook-url https://partner.example/hook --contact-email it@partner.example"))
	s.next(s.run("", "client create --name 'Walk Reward' --callback https://b.example/cb --scope 'daily_steps:read cycling_daily:read' --burst 8 --requests-per-minute 7"))
	s.run("", "client create --name Third --callback https://c.example/cb --scope daily_steps:read --webhook-parallel 3 --concurrent-reads 4 --output json")
	s.run("", "client create --name Third --callback http://c.example/cb --scope daily_steps:read")
	s.run("", "client create --name Third --callback https://c.example/cb --scope swimming:read")
	for _, line := range []string{
		"client list", "client list --query walk", "client show $1", "client show 'walk rewards'", "client disable $2 --yes", "client enable $2",
		"client update $1 --burst 120 --homepage https://partner.example/ --terms-url https://partner.example/terms",
		"client update $2 --name 'Ride Club' --callback https://b.example/callback --scope daily_steps:read",
		"client rotate-secret $1 --yes", "client rotate-secret $1 --overlap 24h", "client show $1", "client errors $1", "client errors 'Ride Club'",
		"client change-requests", "client portal-sessions $1", "client portal-link $1 --name kim", "client portal-link $1 --replace --read-only --valid 1h",
		"client portal-sessions $1", "client webhook set $2 https://b.example/hook", "client webhook set $2 https://b.example/other",
		"client webhook rotate-secret $2", "client webhook pause $2", "client webhook resume $2", "client webhook remove $2 --yes",
		"client webhook set operator https://app.example/hook", "client webhook pause operator", "client webhook resume operator",
		"webhook list --client operator", "client webhook remove operator --yes",
	} {
		s.both(line)
	}
	for _, line := range []string{
		"client show Nobody", "client show ''", "client show 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11", "client update $1", "client update $1 --burst 0",
		"client update $1 --homepage nowhere", "client update $1 --logo no-such-file", "client rotate-secret $1 --overlap 721h", "client rotate-secret $1 --overlap 1ms",
		"client change-request $1", "client change-request $1 --refuse $1", "client change-request $1 --answer no", "client change-request $1 --approve $1",
		"client change-request $1 --approve $1 --refuse $1", "client portal-link $1 --valid 25h", "client portal-link $1 --name 'kim lee'",
		"client portal-sessions $1 --end $1", "client portal-sessions $1 --end $1 --end-all", "client portal-sessions $1 --end-all",
		"client webhook set $2 http://b.example/hook", "client webhook pause $2", "client webhook remove $2", "client webhook remove $2 --yes", "client webhook rotate-secret $2",
		"client disable $2", "client suspend $2", "client resume $2", "client rotate-secret $2",
		"webhook test --client $2", "webhook test --client $1 --type no.such",
	} {
		s.run("", line)
	}
	s.next(s.run("", "client create --name Open --callback https://o.example/cb --scope daily_steps:read"))
	open, registry := uuid.MustParse(s.know[2]), client.NewRegistry(db.Pool, nil)
	for _, act := range []string{"--approve $4", "--refuse $5 --answer 'First show us your load test.'"} {
		if _, err := registry.RequestChange(t.Context(), open, func(r *client.Registration) { r.Policy.Burst++ }); err != nil {
			t.Fatal(err)
		}
		s.both("client change-requests")
		s.next(s.run("", "client change-request $3"))
		s.both("client change-request $3 " + act)
	}

	// Users and data: $6 is Ada, $7 is Bob.
	s.next(s.run("", "user create --email ada@example.com --timezone Europe/Berlin --registered-on 2024-01-31 --id 3f0a4bd6-9d5c-4d8a-9a53-7d1f6f1f8a01"))
	s.next(s.run("", "user create --email bob@example.com --timezone Asia/Calcutta --registered-on 2024-01-31 --id 6f1c2c9e-5a53-4a0e-9a39-3d2a5c1f7b10 --output json"))
	ada, walk := uuid.MustParse(s.know[5]), uuid.MustParse(s.know[0])
	connected(t, db, pgtest.User{ID: ada}, pgtest.Client{ID: walk})
	connected(t, db, pgtest.User{ID: uuid.MustParse(s.know[6])}, pgtest.Client{ID: walk})
	succeed(t, s.env, "user_id,date,steps\n"+s.know[5]+",2025-02-01,8421\n"+s.know[5]+",2025-02-02,17\n", "import", "daily-steps", "-")
	succeed(t, s.env, "user_id,source_id,recorded_start_time,recorded_end_time,distance_meters\n"+
		s.know[5]+",ride-1,2025-02-01T07:45:00,2025-02-01T08:20:30.5,12840\n"+s.know[5]+",ride-2,2025-02-02T07:45:00,,5\n", "import", "cycling-activities", "-")
	for _, line := range []string{ // a date each: lists are sorted by it
		"adjust steps --user ada@example.com --date 2025-02-01 --delta -500 --note 'device on a swing'",
		"adjust cycling --user $6 --date 2025-02-01 --delta-meters 1200 --note tunnel --output json",
		"adjust cycling --user $6 --date 2025-02-02 --delta 7 --note 'once more'",
	} {
		s.run("", line)
	}
	for _, line := range []string{
		"user list", "user show ada@example.com", "user show $6", "user update ada@example.com --timezone Asia/Tokyo --registered-on 2024-02-01",
		"user activity $6 --from 2025-02-01 --to 2025-02-03", "user sign-ins ada@example.com", "user sign-ins $6", "user sign-ins nobody@example.com",
		"user lift-limits ada@example.com", "user sign-ins ada@example.com", "connection list --user ada@example.com", "connection list --user $6",
		"connection list --email ada@example.com", "connection list --client 'walk rewards'", "find ada@example.com", "find $1", "find 'walk'", "find nothing",
	} {
		s.both(line)
	}
	s.next(s.run("", "adjust steps --user $6 --date 2025-02-02 --delta 3 --note 'to remove'"))
	for _, line := range []string{
		"user show nobody@example.com", "user show nobody", "user show $1", "user create --email ada@example.com --timezone UTC --registered-on 2024-01-31",
		"user create --email x@example.com --timezone Nowhere/X --registered-on 2024-01-31", "user create --email x@example.com --timezone UTC --registered-on 31.1.2024",
		"user update ada@example.com", "user update ada@example.com --email bob@example.com", "user activity $6 --from 2025-02-03 --to 2025-02-01",
		"user activity nobody@example.com --from 2025-02-01 --to 2025-02-03", "connection list", "connection list --user $6 --client $1",
		"connection list --email nobody@example.com", "adjust steps --user $6 --date 2025-02-01 --delta 0 --note x", "adjust steps --user $6 --date 2025-02-01 --delta many --note x",
		"adjust steps --user $1 --date 2025-02-01 --delta 1 --note x", "adjust list --user nobody@example.com",
	} {
		s.run("", line)
	}
	s.both("adjust list --user $6")

	// Events: $9 has failed.
	s.know = append(s.know, messageOf(failedEvent(t, db, walk)))
	for _, line := range []string{
		"webhook list --state failed", "webhook list --client $1", "webhook list --client $2", "webhook show $9", "webhook replay $9", "webhook list --client $1 --state pending",
		"usage --since 24h --query walk", "usage --query nothing", "usage --client $1", "report --since 2d", "report --client 'walk rewards' --since 1d",
	} {
		s.both(line)
	}
	for _, line := range []string{
		"webhook list --state lost", "webhook show msg_x", "webhook show msg_00000000000000000000000000000001", "webhook replay msg_00000000000000000000000000000001",
		"usage --client $1 --query x", "usage --since yesterday", "report --since 0d", "report --client Nobody",
	} {
		s.run("", line)
	}

	// Destructive commands ask first.
	for _, line := range []string{
		"remove steps --user ada@example.com --date 2025-02-02", "remove ride --user $6 --source-id ride-2", "remove adjustment --user $6 --id $8",
		"connection disconnect --user ada@example.com --client 'walk rewards'", "client revoke-tokens $1", "client offboard 'Walk Rewards'", "user delete $6",
	} {
		s.run("", line)
		s.run("no\n", line)
		if strings.HasPrefix(line, "remove ride") {
			s.run("", line+" --yes --output json")
		} else {
			s.run("yes\n", line)
		}
		s.run("", line+" --yes")
		s.run("", line+" --yes --output json")
	}
	s.run("", "client offboard $2 --yes --output json")
	s.run("", "user delete $7 --yes --output json")
	s.run("", "client show $2")
	s.run("", "client update $2 --burst 7")
	for _, line := range []string{
		"audit list", "audit list --client $1 --action client.updated", "audit list --user $6 --since 2024-01-01", "audit list --actor cli:grace --until 2024-01-01",
	} {
		s.both(line)
	}
	for _, line := range []string{
		"audit list --user ada@example.com", "audit list --client Nobody", "audit list --action 'a b'", "audit list --since now", "audit list --user $7 --output yaml",
	} {
		s.run("", line)
	}

	const golden = "testdata/acts.golden"
	if *updateActs {
		if err := os.WriteFile(golden, s.Bytes(), 0o644); err != nil { //nolint:gosec // a document
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(s.String(), "\n")); diff != "" {
		t.Errorf("the commands differ from %s (-want +got):\n%s", golden, diff)
	}
}
