package main

import (
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/mailtest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// section returns the commands under a heading of docs/days.md, with their texts replaced by what they stand for.
func section(t *testing.T, heading string, replace ...string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/days.md")
	if err != nil {
		t.Fatal(err)
	}
	_, chapter, found := strings.Cut(string(text), "\n## "+heading+"\n")
	chapter, _, _ = strings.Cut(chapter, "\n## ")
	for _, block := range fence.FindAllStringSubmatch(chapter, -1) {
		for line := range strings.Lines(block[2]) {
			lines = append(lines, strings.NewReplacer(replace...).Replace(strings.TrimSpace(line)))
		}
	}
	if !found || len(lines) == 0 {
		t.Fatalf("docs/days.md has no commands under %q", heading)
	}
	return lines
}

// bashed runs a line of a document, in which connect-svc is this program.
func bashed(t *testing.T, env []string, line string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "bash", "-c", `connect-svc() { env `+asProgram+`=1 "$PROGRAM" "$@"; }; `+line)
	command.Env = append(append(os.Environ(), env...), "PROGRAM="+os.Args[0])
	out, err := command.CombinedOutput()
	return string(out), err
}

// bashDone is bashed of a line that must succeed.
func bashDone(t *testing.T, env []string, line string) string {
	t.Helper()
	out, err := bashed(t, env, line)
	if err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
	return out
}

// The page "Look at yesterday's backup": a server beside the original shows the copy, changes and sends nothing, and refuses acts. Without the
// flag the same copy sends what its original has to send, and everybody who can be told has been warned.
func TestYesterdaysBackup(t *testing.T) {
	pgtest.NotOnCluster(t, "a backup of a cluster is no snapshot")
	t.Parallel()
	original, yesterday := pgtest.New(t), pgtest.NewEmpty(t)
	mail := mailtest.Start(t, mailtest.Config{})
	const noMail = "CONNECT_SMTP_URL=smtp://127.0.0.1:25"
	env := with(slices.DeleteFunc(allSettings(t, original), func(s string) bool { return s == noMail }), "CONNECT_SMTP_URL=smtp://"+mail.Address, "CONNECT_OPERATOR_TOKEN="+operatorToken)
	keyset := settingOf(t, env, "CONNECT_KEYSET_FILE")
	keys, err := credential.LoadKeyring(keyset)
	if err != nil {
		t.Fatal(err)
	}
	// The original's load balancer asks at its own address, which is taken.
	probed, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer probed.Close()
	env = with(env, "CONNECT_READY_LISTEN="+probed.Addr().String())
	// A receipt and a webhook wait, and a session has expired.
	partner, user := original.Client(t), original.User(t)
	edgetest.Connect(t, oauth.New(original.Pool, keys, oauth.DefaultSettings), partner, scope.All, user.ID)
	original.Webhook(t, partner.ID)
	due := pendingEvent(t, original, partner.ID)
	original.Exec(t, "update webhook_events set due_at = now() where event_id = $1", due)
	original.Exec(t, "insert into operator_sessions (secret_hash, token_hash, expires_at) values (decode(repeat('00', 32), 'hex'), decode(repeat('00', 32), 'hex'), now() - interval '1 day')")

	folder := t.TempDir()
	backup, config := filepath.Join(folder, "backup"), filepath.Join(folder, "connect-svc.env")
	// The file of the package has no keyset, which the unit names.
	if err := os.WriteFile(config, []byte(strings.Join(slicesWithout(env, "CONNECT_KEYSET_FILE"), "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bashDone(t, with(env, "CONNECT_DATABASE_URL="+original.URL), "../../docs/backup.sh "+backup)
	lines := section(t, "Look at yesterday's backup", "CONNECT_DATABASE_URL=…", "CONNECT_DATABASE_URL="+yesterday.URL,
		"/etc/connect-svc/keyset.json", keyset, "docs/restore.sh", "../../docs/restore.sh", "/backup/2026-11-21", backup,
		"/etc/connect-svc/connect-svc.env", config, "postgres://localhost/yesterday", yesterday.URL, "127.0.0.1:9190", "127.0.0.1:0")
	if len(lines) != 4 || !strings.HasPrefix(lines[0], "createdb ") {
		t.Fatalf("the page has other commands: %q", lines)
	}
	bashDone(t, nil, lines[1])

	out, _ := bashed(t, env, "connect-svc check --config "+config+" --database-url '"+yesterday.URL+"'")
	if !strings.Contains(out, "history") || !strings.Contains(out, "serve --read-only") {
		t.Errorf("check does not warn of a copy:\n%s", out)
	}
	before := pgtest.Rows(t, yesterday.Pool, "audit_log", "operator_sessions")
	rest, _ := strings.CutPrefix(lines[2], "connect-svc serve ")
	t.Run("only looking", func(t *testing.T) {
		s := start(t, nil, strings.Fields(rest)...)
		if !strings.Contains(s.public, "read-only") {
			t.Errorf("the public listener is at %s", s.public)
		}
		if out := bashDone(t, env, strings.ReplaceAll(lines[3], "127.0.0.1:0", s.private)); !strings.Contains(out, "user.created") && !strings.Contains(out, partner.ID.String()) {
			t.Errorf("the audit log of the copy: %s", out)
		}
		looksAround(t, s.private, user.ID.String(), partner.ID.String())
		if strings.Contains(s.log.String(), "read-only transaction") { // work that tries to write
			t.Errorf("the server does more than look:\n%s", &s.log)
		}
	})
	if n := mail.NoticesWaiting(); n != 0 {
		t.Errorf("a read-only server sent %d emails", n)
	}
	for table, rows := range pgtest.Rows(t, yesterday.Pool, "audit_log", "operator_sessions") {
		if before[table] != rows {
			t.Errorf("a read-only server changed %s", table)
		}
	}
	if n := pgtest.Value[int](t, yesterday, "select count(*) from audit_log where action in ('console.signed_in', 'activity.viewed')"); n != 2 {
		t.Errorf("the copy has %d entries about who looked", n)
	}
	if pgtest.Value[int](t, yesterday, "select count(*) from operator_sessions where expires_at < now()") != 1 {
		t.Error("a read-only server swept")
	}

	// By mistake.
	_ = probed.Close()
	s := start(t, nil, strings.Fields(strings.ReplaceAll(rest, " --read-only", ""))...)
	if email := mail.NextNotice(t); !strings.Contains(email.Text, partner.Name) {
		t.Errorf("the email that waited is about something else: %s", email.Text)
	}
	wait.Until(t, "an attempt to send the webhook", func() bool {
		return pgtest.Value[int](t, yesterday, "select attempts from webhook_events where event_id = $1", due) > 0
	})
	if warned, served := strings.Index(s.log.String(), "serve --read-only"), strings.Index(s.log.String(), `"msg":"serving"`); warned < 0 || warned > served {
		t.Errorf("the warning is not in the log before it serves:\n%s", &s.log)
	}
	if _, body := get(t, http.DefaultClient, "http://"+s.private+"/metrics"); !strings.Contains(body, "connect_database_reconciled 0") {
		t.Error("the metric does not tell of a copy")
	}
	succeed(t, with(env, "CONNECT_DATABASE_URL="+yesterday.URL), "[]", "restore", "reconcile", "--audit", "-")
	if out, _ := bashed(t, env, "connect-svc check --config "+config+" --database-url '"+yesterday.URL+"'"); strings.Contains(out, "serve --read-only") {
		t.Errorf("check warns of a database that was reconciled:\n%s", out)
	}
}

// settingOf returns the value of a setting.
func settingOf(t *testing.T, env []string, name string) string {
	t.Helper()
	value := ""
	for _, setting := range env {
		if v, found := strings.CutPrefix(setting, name+"="); found {
			value = v
		}
	}
	if value == "" {
		t.Fatalf("%s is not set", name)
	}
	return value
}

// looksAround is an operator with a token for everything, at a read-only server: every page shows, every act is refused.
func looksAround(t *testing.T, private, user, partner string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	ask := func(method, path, body string, header http.Header) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+private+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header = http.Header{}
		maps.Copy(request.Header, header)
		answer, err := browser.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	form := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Sec-Fetch-Site": {"same-origin"}}
	if status, body := ask(http.MethodPost, "/console/sign-in", url.Values{"token": {operatorToken}, "to": {""}}.Encode(), form); status != http.StatusOK {
		t.Fatalf("signing in to the console: %d %s", status, body)
	}
	for _, path := range []string{"", "/users/" + user, "/partners", "/partners/" + partner, "/partners/" + partner + "/webhooks", "/audit", "/service"} {
		if status, body := ask(http.MethodGet, "/console"+path, "", nil); status != http.StatusOK || !strings.Contains(body, "Read-only") {
			t.Errorf("GET /console%s: %d", path, status)
		}
	}
	if status, body := ask(http.MethodPost, "/console/partners/"+partner+"/disable", "", form); status != http.StatusForbidden || !strings.Contains(body, "Nothing was changed") {
		t.Errorf("an act in the console: %d", status)
	}
	bearer := http.Header{"Authorization": {"Bearer " + operatorToken}, "Content-Type": {"application/json"}}
	for _, path := range []string{"/operator/v1/clients", "/operator/v1/users/" + user, "/operator/v1/report", "/readyz?verbose"} {
		if status, body := ask(http.MethodGet, path, "", bearer); status != http.StatusOK || path == "/readyz?verbose" && !strings.Contains(body, `"keyset":"ok"`) {
			t.Errorf("GET %s: %d %s", path, status, body)
		}
	}
	status, body := ask(http.MethodDelete, "/operator/v1/users/"+user, "", bearer)
	var problem struct{ Type string }
	if err := json.Unmarshal([]byte(body), &problem); err != nil || status != http.StatusForbidden || problem.Type != "urn:connect-svc:problem:read-only" {
		t.Errorf("an act of the operator API: %d %s", status, body)
	}
}

// refreshed sends a refresh to a server, keeps the new token, and returns the answer.
func refreshed(t *testing.T, server string, partner pgtest.Client, token *string) (status int, body string, header http.Header) {
	t.Helper()
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {*token}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+server+"/oauth/token", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.SetBasicAuth(partner.ID.String(), partner.Secret)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode == http.StatusOK {
		var tokens struct {
			RefreshToken string `json:"refresh_token"`
		}
		if err := json.Unmarshal(text, &tokens); err != nil {
			t.Fatal(err)
		}
		*token = tokens.RefreshToken
	}
	return answer.StatusCode, string(text), answer.Header
}
