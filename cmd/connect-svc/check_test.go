package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/testing/mailtest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/redistest"
)

type checked struct {
	OK     bool
	Checks []struct{ Check, Status, Detail string }
}

// statuses are those of all checks by name.
func (c checked) statuses() map[string]string {
	all := map[string]string{}
	for _, check := range c.Checks {
		all[check.Check] = check.Status
	}
	return all
}

// If everything works, check says so and leaves the database as it was.
func TestCheck(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	cert, key, _ := certificateFiles(t)
	post := mailtest.Start(t, mailtest.Config{})
	env := with(allSettings(t, db), "CONNECT_BASE_URL=https://127.0.0.1:8443", "CONNECT_TLS_CERT="+cert, "CONNECT_TLS_KEY="+key,
		"CONNECT_SMTP_URL=smtp://"+post.Address, "CONNECT_LIMITER_URL="+redistest.Start(t).URL())
	got := succeedJSON[checked](t, env, "", "check")
	if diff := cmp.Diff(map[string]string{
		"setting": "ok", "certificate": "ok", "private certificate": "skipped", "mail server": "ok", "rate limiter": "ok",
		"read replicas": "skipped", "database": "ok", "clock": "ok", "schema": "ok", "keyset": "ok", "listeners": "ok", "connections": "ok",
	}, got.statuses()); diff != "" || !got.OK {
		t.Errorf("ok %t (-want +got):\n%s", got.OK, diff)
	}
	for check, want := range map[string]string{
		"mail server": "takes a session, not for addresses that are not ASCII before the @ (no SMTPUTF8); stays on this machine", "rate limiter": "answers; stays on this machine",
		"database": "answers; stays on this machine",
	} {
		for _, got := range got.Checks {
			if got.Check == check && got.Detail != want {
				t.Errorf("%s: %q, want %q", check, got.Detail, want)
			}
		}
	}
	db.Exec(t, "update database_history set reconciled = 'another'")
	if got := succeedJSON[checked](t, env, "", "check"); got.statuses()["history"] != "ok" {
		t.Errorf("check asks for no reconciliation of a restored database: %v", got)
	}
	if n := pgtest.Value[int64](t, db, "select count(*) from keyset_marks"); n != 0 {
		t.Errorf("check left %d marks of the keyset", n)
	}
	if text := succeed(t, env, "", "check"); !strings.Contains(text, "keyset               ok") {
		t.Errorf("as text:\n%s", text)
	}
}

// All that is wrong is found at once; what cannot be checked is skipped.
func TestCheckFindsAllProblems(t *testing.T) {
	t.Parallel()
	cert, key, _ := certificateFiles(t) // for 127.0.0.1
	foreign := pgtest.New(t)
	start(t, allSettings(t, foreign)) // with another keyset
	bad := []string{"CONNECT_SMTP_URL=smtp://127.0.0.1:1", "CONNECT_LIMITER_URL=redis://u:hush@127.0.0.1:1",
		"CONNECT_DATABASE_READ_URL=postgres://u:hush@127.0.0.1:1/n", "CONNECT_TLS_CERT=" + cert, "CONNECT_TLS_KEY=" + key}
	for name, tt := range map[string]struct {
		env    []string
		status int
		want   map[string]string
	}{
		"all but the database": {with(with(allSettings(t, foreign), env(foreign)...), bad...), statusFailed, map[string]string{
			"setting": "ok", "certificate": "failed", "private certificate": "skipped", "mail server": "failed", "rate limiter": "failed",
			"read replicas": "failed", "database": "ok", "clock": "ok", "schema": "ok", "keyset": "failed", "listeners": "ok", "connections": "ok",
		}},
		"empty database": {with(allSettings(t, foreign), env(pgtest.NewEmpty(t))...), statusFailed, map[string]string{
			"setting": "ok", "certificate": "skipped", "private certificate": "skipped", "mail server": "failed", "rate limiter": "skipped",
			"read replicas": "skipped", "database": "ok", "clock": "skipped", "schema": "failed", "keyset": "skipped", "listeners": "ok",
		}},
		"settings": {[]string{"CONNECT_SMTP_URL=http://u:hush@h", "CONNECT_DATABASE_URL=postgres://u:hush@127.0.0.1:1/n", "CONNECT_LISTEN=x"}, statusUsage, map[string]string{
			"setting": "failed", "certificate": "skipped", "private certificate": "skipped", "mail server": "skipped", "rate limiter": "skipped",
			"read replicas": "skipped", "database": "failed", "clock": "skipped", "schema": "skipped", "keyset": "skipped", "listeners": "ok",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name != "settings" {
				tt.env = with(tt.env, "CONNECT_SMTP_URL=smtp://127.0.0.1:1")
			}
			got := call(t, tt.env, "", "check", "--output", "json")
			if got.status != tt.status || strings.Count(got.stderr, "\n") != 1 || !strings.Contains(got.stderr, "checks failed") {
				t.Errorf("status %d, %s", got.status, got.stderr)
			}
			var result checked
			if err := json.Unmarshal([]byte(got.stdout), &result); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, result.statuses()); diff != "" || result.OK {
				t.Errorf("ok %t (-want +got):\n%s", result.OK, diff)
			}
			if strings.Contains(got.stdout, "hush") {
				t.Errorf("a password is shown: %s", got.stdout)
			}
		})
	}
}

// A Redis that speaks TLS is verified, and one that takes no decisions is not in order.
func TestCheckRedis(t *testing.T) {
	t.Parallel()
	cert, key, _ := certificateFiles(t)
	encrypted, master, replica := redistest.StartTLS(t, cert, key), redistest.Start(t), redistest.Start(t)
	replica.Follow(t, master)
	env := allSettings(t, pgtest.New(t))
	for name, tt := range map[string]struct{ url, roots, status, detail string }{
		"TLS":                  {"rediss://" + encrypted.Addr, cert, "ok", "answers"},
		"TLS of a stranger":    {"rediss://" + encrypted.Addr, writeFile(t, ""), "failed", "certificate signed by unknown authority"},
		"TLS by another name":  {"rediss://localhost:" + encrypted.Port, cert, "failed", "certificate is not valid"},
		"TLS that nobody asks": {"redis://" + encrypted.Addr, cert, "failed", ""},
		"no TLS":               {"rediss://" + master.Addr, cert, "failed", ""},
		"a replica":            {replica.URL(), cert, "failed", "READONLY"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := exec.CommandContext(t.Context(), os.Args[0], "check", "--output", "json")
			command.Env = with(env, asProgram+"=1", "SSL_CERT_FILE="+tt.roots, "SSL_CERT_DIR=", "CONNECT_LIMITER_URL="+tt.url)
			output, err := command.Output()
			var got checked
			if err := json.Unmarshal(output, &got); err != nil {
				t.Fatal(err)
			}
			if command.ProcessState == nil {
				t.Fatal(err)
			}
			for _, check := range got.Checks {
				if check.Check == "rate limiter" && (check.Status != tt.status || !strings.Contains(check.Detail, tt.detail)) {
					t.Errorf("%s: %s; want %s: …%s…", check.Status, check.Detail, tt.status, tt.detail)
				}
			}
			if got.statuses()["rate limiter"] == "" {
				t.Errorf("nothing is said of the limiter: %s", output)
			}
		})
	}
}

// How the way to each server is protected is told, also where the server does not answer.
func TestCheckNamesUnverifiedTLS(t *testing.T) {
	t.Parallel()
	const database, limiter, mail = "postgres://u:hush@db.invalid/n", "://u:hush@redis.invalid", "://mail.invalid:465"
	for name, tt := range map[string]struct{ database, limiter, mail, tls, option string }{
		"not at all":   {database + "?sslmode=disable", "redis" + limiter + "?tls=off", "smtp" + mail + "?tls=off", "TLS is not verified (%s)", "tls=off"},
		"not verified": {database + "?sslmode=require", "redis" + limiter + "?tls=off", "smtp" + mail + "?tls=off", "TLS is not verified (%s)", "tls=off"},
		"verified":     {database, "rediss" + limiter, "smtps" + mail, "TLS is verified", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, mode, _ := strings.Cut(tt.database, "?")
			var got checked
			out := call(t, with(allSettings(t, pgtest.NewEmpty(t)), "CONNECT_DATABASE_URL="+tt.database, "CONNECT_DATABASE_READ_URL="+tt.database,
				"CONNECT_LIMITER_URL="+tt.limiter, "CONNECT_SMTP_URL="+tt.mail), "", "check", "--output", "json")
			if err := json.Unmarshal([]byte(out.stdout), &got); err != nil {
				t.Fatalf("%v: %s", err, out.stderr)
			}
			want := map[string]string{"database": mode, "read replicas": mode, "rate limiter": tt.option, "mail server": tt.option}
			for _, check := range got.Checks {
				says := strings.ReplaceAll(tt.tls, "%s", want[check.Check])
				if _, is := want[check.Check]; is && (check.Status != "failed" || !strings.HasSuffix(check.Detail, "; "+says)) {
					t.Errorf("%s is %s: %q, want %q at the end", check.Check, check.Status, check.Detail, says)
				}
			}
			if strings.Contains(out.stdout+out.stderr, "hush") {
				t.Error("a password is shown")
			}
		})
	}
}

// The clock is the one that decides expiries. It may be as far off as machines are that keep the time, ahead or behind.
func TestCheckClock(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	env := with(allSettings(t, db), "CONNECT_SMTP_URL=smtp://"+mailtest.Start(t, mailtest.Config{}).Address)
	for _, test := range []struct {
		offset string
		status int
		want   string // of the row
	}{
		{"0", statusDone, `ok +the database's is -?[0-9.]+(µs|ms|s) ahead`},
		{"1 minute", statusFailed, `failed +the database's is (1m0|59)\.?[0-9]*s ahead of this machine's`},
		{"-1 hour", statusFailed, `failed +the database's is -(1h0m0|59m59)\.?[0-9]*s ahead of this machine's`},
	} {
		db.Exec(t, fmt.Sprintf("do $$ begin execute format('alter database %%I set connect.clock_offset = %%L', current_database(), '%s'); end $$", test.offset))
		got := call(t, env, "", "check")
		if got.status != test.status || !regexp.MustCompile(`(?m)^clock +`+test.want).MatchString(got.stdout) {
			t.Errorf("%s: status %d, %s", test.offset, got.status, got.stdout)
		}
	}
}

// Check finds what serves only in part, or not as it should: here each problem is alone.
func TestCheckFindsWhatServesBadly(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	base := with(allSettings(t, db), "CONNECT_BASE_URL=https://127.0.0.1:8443", "CONNECT_SMTP_URL=smtp://"+mailtest.Start(t, mailtest.Config{}).Address)
	long, longKey, _ := certificateFiles(t)
	short, shortKey, _ := certificateFilesFor(t, 50*time.Minute)
	serving := start(t, with(allSettings(t, pgtest.New(t)), "CONNECT_BASE_URL=https://127.0.0.1", "CONNECT_TLS_CERT="+long, "CONNECT_TLS_KEY="+longKey))
	foreign := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(foreign.Close)
	tooMany, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	query := tooMany.Query()
	query.Set("pool_max_conns", "100000")
	tooMany.RawQuery = query.Encode()
	for name, test := range map[string]struct {
		setting string
		check   string
		says    string
	}{
		"a typo":                 {"CONNECT_BRANDNAME=Nine", "setting", "CONNECT_BRANDNAME is not a setting of this program"},
		"listeners collide":      {"CONNECT_LISTEN=:9090;CONNECT_PRIVATE_LISTEN=127.0.0.1:9090", "setting", "is taken by CONNECT_LISTEN"},
		"a third one collides":   {"CONNECT_PRIVATE_LISTEN=[::1]:9090;CONNECT_READY_LISTEN=[::]:9090", "setting", "is taken by CONNECT_PRIVATE_LISTEN"},
		"no listener's host":     {"CONNECT_LISTEN=300.0.0.1:8443", "setting", "is not an address to listen on"},
		"no issuer's host":       {"CONNECT_BASE_URL=https://connect..example", "setting", "names a host that cannot be"},
		"no private host":        {"CONNECT_PRIVATE_HOSTS=" + strings.Repeat("a", 64) + ".example", "setting", "is not a list of host names"},
		"everybody is a proxy":   {"CONNECT_TRUSTED_PROXIES=10.0.0.0/8,0.0.0.0/0", "trusted proxies", "anyone could name any address"},
		"everybody, by IPv6":     {"CONNECT_TRUSTED_PROXIES=::/0", "trusted proxies", "anyone could name any address"},
		"webhooks to everybody":  {"CONNECT_WEBHOOK_ALLOW_CIDRS=10.0.0.0/8,::/0", "webhooks", "any server of your own network"},
		"a foreign port":         {"CONNECT_LISTEN=" + foreign.Listener.Addr().String(), "listeners", "another program, or a server that runs with other settings, listens at " + foreign.Listener.Addr().String() + " (CONNECT_LISTEN)"},
		"a foreign private port": {"CONNECT_READY_LISTEN=" + foreign.Listener.Addr().String(), "listeners", "(CONNECT_READY_LISTEN)"},
		"another issuer":         {"CONNECT_LISTEN=" + serving.public, "listeners", "a server that runs with other settings, listens at " + serving.public},
		"its own ports":          {"CONNECT_BASE_URL=https://127.0.0.1;CONNECT_LISTEN=" + serving.public + ";CONNECT_PRIVATE_LISTEN=" + serving.private, "", ""},
		"a pool that is too big": {"CONNECT_DATABASE_URL=" + tooMany.String(), "connections", "raise max_connections, or the limit of the role or the database, or set pool_max_conns="},
		"the primary":            {"CONNECT_DATABASE_READ_URL=" + db.URL, "read replicas", "is not a replica"},
		"a dead replica":         {"CONNECT_DATABASE_READ_URL=" + "postgres://u@127.0.0.1:1/n", "read replicas", "127.0.0.1:1: "},
		"a certificate of today": {"CONNECT_BASE_URL=https://127.0.0.1;CONNECT_LISTEN=" + serving.public + ";CONNECT_TLS_CERT=" + short + ";CONNECT_TLS_KEY=" + shortKey, "certificate", "sooner than the one that the service presents"},
		"apart":                  {"CONNECT_LISTEN=127.0.0.1:9090;CONNECT_PRIVATE_LISTEN=[::1]:9090;CONNECT_READY_LISTEN=127.0.0.2:9090", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := call(t, with(base, strings.Split(test.setting, ";")...), "", "check", "--output", "json")
			var got checked
			if err := json.Unmarshal([]byte(out.stdout), &got); err != nil {
				t.Fatalf("%v: %s", err, out.stderr)
			}
			var failed, says []string
			for _, check := range got.Checks {
				if check.Status == "failed" {
					failed, says = append(failed, check.Check), append(says, check.Detail)
				}
			}
			if strings.Join(failed, " ") != test.check || !strings.Contains(strings.Join(says, " "), test.says) {
				t.Errorf("failed: %q, which say %q; want %q, %q", failed, says, test.check, test.says)
			}
		})
	}
}

// Check warns of what works and should not be.
func TestCheckWarns(t *testing.T) {
	t.Parallel()
	base := with(allSettings(t, pgtest.New(t)), "CONNECT_BASE_URL=https://127.0.0.1", "CONNECT_SMTP_URL=smtp://"+mailtest.Start(t, mailtest.Config{}).Address)
	certificate := func(lifetime time.Duration) string {
		cert, key, _ := certificateFilesFor(t, lifetime)
		return "CONNECT_TLS_CERT=" + cert + ";CONNECT_TLS_KEY=" + key
	}
	const day = 24 * time.Hour
	for name, test := range map[string]struct{ setting, check, says string }{
		"a certificate that ends soon":     {certificate(13*day + time.Hour), "certificate", "for 13 more days"},
		"a certificate that ends later":    {certificate(15 * day), "certificate", ""},
		"operators' tokens in clear":       {"CONNECT_PRIVATE_LISTEN=:0", "listeners", "without TLS at every address"},
		"the same by IPv6":                 {"CONNECT_PRIVATE_LISTEN=[::]:0", "listeners", "without TLS at every address"},
		"inactive after a second":          {"CONNECT_REFRESH_INACTIVITY=1s", "times", "CONNECT_REFRESH_INACTIVITY is 1s: too short"},
		"a log of a second":                {"CONNECT_AUDIT_RETENTION=1s;CONNECT_CODE_LIFETIME=2s", "times", "CONNECT_AUDIT_RETENTION is 1s, CONNECT_CODE_LIFETIME is 2s"},
		"a log of a day":                   {"CONNECT_AUDIT_RETENTION=25h", "times", "CONNECT_AUDIT_RETENTION is 25h0m0s"},
		"a log for ever, and a day's":      {"CONNECT_AUDIT_RETENTION=0;CONNECT_REFRESH_INACTIVITY=24h", "times", ""},
		"all that was not set has a value": {"", "listeners", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			says := ""
			for _, check := range succeedJSON[checked](t, with(base, strings.Split(test.setting, ";")...), "", "check").Checks {
				if strings.HasPrefix(check.Detail, "warning: ") && check.Check == test.check {
					says = check.Detail
				}
			}
			if !strings.Contains(says, test.says) || (says == "") != (test.says == "") {
				t.Errorf("%s warns: %q, want %q", test.check, says, test.says)
			}
		})
	}
}

// Users whose time zone nobody knows are a warning: nothing fails for them. Former names are known.
func TestCheckWarnsOfTimezones(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	env := with(allSettings(t, db), "CONNECT_SMTP_URL=smtp://"+mailtest.Start(t, mailtest.Config{}).Address)
	add := func(zones ...string) (detail string) {
		for _, zone := range zones {
			db.User(t, func(u *pgtest.User) { u.Timezone = zone })
		}
		got := succeedJSON[checked](t, env, "", "check")
		for _, check := range got.Checks {
			if check.Check == "time zones" {
				detail += check.Status + " " + check.Detail
			}
		}
		return detail
	}
	if got := add("UTC", "Asia/Calcutta"); got != "" {
		t.Errorf("known time zones: %s", got)
	}
	if got := add("Mars/Olympus", "Local", "Mars/Olympus"); !strings.HasPrefix(got, "ok warning: 3 users have") ||
		!strings.Contains(got, `["Local" "Mars/Olympus"];`) {
		t.Errorf("unknown time zones: %s", got)
	}
	for n := range 20 {
		db.User(t, func(u *pgtest.User) { u.Timezone = fmt.Sprintf("Mars/%c\n", 'a'+n) })
	}
	if got := add(); !strings.Contains(got, "23 users") || !strings.Contains(got, `"Mars/a\n"`) || !strings.HasSuffix(got, " and 12 more; change them with connect-svc user update") {
		t.Errorf("many: %s", got)
	}
}

// The pools of all servers have no more connections than the role may have.
func TestCheckConnectionsOfTheRole(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	role := "limited_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	db.Define(t, "create role "+role+" login password 'limited' connection limit 9 in role pg_read_all_data")
	t.Cleanup(func() { db.Define(t, "drop role "+role) })
	address, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.UserPassword(role, "limited")
	for most, want := range map[string]string{"9": "ok servers: 1, with 9 connections each, which share 9", "10": "failed servers: 1, with 10 connections each, which share 9"} {
		out := call(t, with(allSettings(t, db), "CONNECT_DATABASE_URL="+address.String()+"&pool_max_conns="+most), "", "check", "--output", "json")
		var got checked
		if err := json.Unmarshal([]byte(out.stdout), &got); err != nil {
			t.Fatal(err)
		}
		found := ""
		for _, check := range got.Checks {
			if check.Check == "connections" {
				found = check.Status + " " + check.Detail
			}
		}
		if !strings.HasPrefix(found, want) {
			t.Errorf("%s: %q, want %q", most, found, want)
		}
	}
}

// Check sees what a start refuses beside the settings: an address of a collector that is not a URL, and attributes without a value.
func TestCheckSeesTraces(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	good := with(allSettings(t, pgtest.New(t)), asProgram+"=1", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318")
	for variable, value := range map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318", "OTEL_RESOURCE_ATTRIBUTES": "team"} {
		check := exec.CommandContext(t.Context(), program, "check")
		check.Env = with(good, variable+"="+value)
		if out, err := check.Output(); check.ProcessState.ExitCode() != statusUsage || !strings.Contains(string(out), variable) {
			t.Errorf("%s=%s: %v: %s", variable, value, err, out)
		}
	}
}

// Before an upgrade, check of the new program says what is to be done, with the settings and the database of the old one.
func TestCheckBeforeAnUpgrade(t *testing.T) {
	t.Parallel()
	old := pgtest.New(t)
	user := old.User(t)
	old.Exec(t, "update user_addresses set email = 'a@b_c.example', address = 'a@b_c.example' where user_id = $1", user.ID)
	succeed(t, env(old), "", "migrate", "down", "--to", "1.0.0", "--yes")
	cert, key, _ := certificateFiles(t)
	tls := []string{"CONNECT_BASE_URL=https://127.0.0.1", "CONNECT_TLS_CERT=" + cert, "CONNECT_TLS_KEY=" + key}
	serving := start(t, with(with(allSettings(t, pgtest.New(t)), tls...), "CONNECT_SECURITY_CONTACT=mailto:security@example.com"))
	foreign := httptest.NewTLSServer(http.NotFoundHandler()) // a proxy that answers by itself
	t.Cleanup(foreign.Close)
	texts := t.TempDir()
	language, err := os.ReadFile("../../internal/foundation/locale/texts/pt-PT.toml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(texts, "pt.toml"), language, 0o600); err != nil {
		t.Fatal(err)
	}
	mail := "CONNECT_SMTP_URL=smtp://" + mailtest.Start(t, mailtest.Config{}).Address
	proxied := func(base string) []string {
		return []string{mail, "CONNECT_TRUSTED_PROXIES=10.0.0.0/8", "CONNECT_SECURITY_CONTACT=mailto:security@example.com", "CONNECT_BASE_URL=" + base}
	}
	find := func(settings []string) map[string]string {
		t.Helper()
		var got checked
		out := call(t, settings, "", "check", "--output", "json")
		if err := json.Unmarshal([]byte(out.stdout), &got); err != nil {
			t.Fatalf("%v: %s", err, out.stderr)
		}
		found := map[string]string{}
		for _, check := range got.Checks {
			if check.Status == "failed" || strings.HasPrefix(check.Detail, "warning: ") {
				found[check.Check] = check.Detail
			}
		}
		return found
	}
	base := allSettings(t, old)
	found := find(with(with(base, proxied(foreign.URL)...), "CONNECT_TEXTS_DIR="+texts))
	for check, says := range map[string]string{
		"schema":    "`connect-svc migrate up`",
		"addresses": user.ID.String(),
		"texts":     "pt-PT.toml",
		"proxy":     "/account/receipt/, /partners, /.well-known/security.txt",
	} {
		if !strings.Contains(found[check], says) {
			t.Errorf("%s: %q, want %q", check, found[check], says)
		}
		delete(found, check)
	}
	if len(found) > 0 {
		t.Errorf("also found: %v", found)
	}
	old.Exec(t, "delete from user_addresses")
	succeed(t, env(old), "", "migrate", "up")
	if found := find(with(base, proxied("https://"+serving.public)...)); len(found) > 0 {
		t.Errorf("after all was done: %v", found)
	}
	if found := find(with(base, append(proxied(foreign.URL), "CONNECT_PARTNER_PORTAL=off", "CONNECT_RECEIPTS=off", "CONNECT_SECURITY_CONTACT=")...)); len(found) > 0 {
		t.Errorf("without the pages: %v", found)
	}
}
