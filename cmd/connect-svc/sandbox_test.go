package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/uuid"

	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/app"
	"connect-svc/internal/app/settings"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/testing/pgtest"
)

// runSandbox runs a sandbox on free ports until its output holds a text.
func runSandbox(t *testing.T, until string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stdout := &cancelAt{text: until, cancel: cancel}
	var stderr bytes.Buffer
	args = append([]string{"sandbox", "--listen", "127.0.0.1:0", "--private-listen", "localhost:0"}, args...)
	if status := run(ctx, args, nil, strings.NewReader(""), stdout, &stderr); status != statusDone || stderr.Len() != 0 {
		t.Errorf("status %d, stderr %q", status, &stderr)
	}
	return stdout.String()
}

func TestSandboxSaysWhatThereIs(t *testing.T) {
	t.Parallel()
	decoder := json.NewDecoder(strings.NewReader(runSandbox(t, "webhook_secret", "--output", "json")))
	decoder.DisallowUnknownFields()
	var printed sandboxapi.Sandbox
	if err := decoder.Decode(&printed); err != nil || decoder.More() {
		t.Fatalf("the output is not one JSON object: %v", err)
	}
	if len(printed.Users) != 5 || printed.Client.CallbackUrl != "https://partner.example/callback" {
		t.Errorf("printed %+v", printed)
	}
	if _, err := os.Stat(printed.CaFile); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", printed.CaFile, err)
	}

	screen := runSandbox(t, "/developers/sandbox.html", "--callback", "https://stride.example/back", "--webhook-url", "https://stride.example/hooks")
	for _, text := range []string{"https://127.0.0.1:", "/sandbox", "svci_", "whsec_", "User, corrected", "https://stride.example/back", "https://stride.example/hooks"} {
		if !strings.Contains(screen, text) {
			t.Errorf("the screen has no %s:\n%s", text, screen)
		}
	}
	if lines := strings.Count(screen, "\n"); lines > 24 {
		t.Errorf("the screen has %d lines", lines)
	}
}

// A line for each attempt says how the partner's receiver has answered, and nothing that is secret. It is not on the standard output of
// programs.
func TestSandboxPrintsDeliveries(t *testing.T) {
	t.Parallel()
	status := http.StatusTeapot
	sent := sandboxapi.Webhook{
		Id: "msg_4f1f7d3e52a44c8e9c6c7b0a8f0d9f21", Type: sandboxapi.WebhookTypeConnectionRevoked, Body: "{}",
		Headers: map[string]string{"webhook-signature": "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4="},
	}
	const line = "2026-11-21T10:00:00.000Z  connection.revoked  msg_4f1f7d3e52a44c8e9c6c7b0a8f0d9f21  "
	const lines = line + "418 I'm a teapot\n" + line + "no answer\n"
	for format, streams := range map[string][2]string{"text": {lines, ""}, "json": {"", lines}} {
		var stdout, stderr bytes.Buffer
		show := sandboxCommand{output: output{Output: format}}.printDelivery(&program{stdout: &stdout, stderr: &stderr})
		show(sent, sandboxapi.Try{At: "2026-11-21T10:00:00.000Z", Status: &status})
		show(sent, sandboxapi.Try{At: "2026-11-21T10:00:00.000Z"})
		if got := [2]string{stdout.String(), stderr.String()}; got != streams {
			t.Errorf("%s: %q", format, got)
		}
	}
}

func TestSandboxRefusals(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ flag, value string }{
		{"--listen", "8443"}, {"--listen", ":8443"}, {"--listen", "0.0.0.0:8443"}, {"--listen", "127.0.0.1:99999"},
		{"--listen", "127.0.0.2:8443"}, {"--private-listen", "192.168.1.7:9090"}, {"--private-listen", "localhost"},
		{"--callback", "http://partner.example/callback"}, {"--callback", "https://partner.example"},
		{"--webhook-url", "http://10.0.0.1:8444/"}, {"--forward", "http://partner.example/"}, {"--forward", "localhost:3000"},
		{"--client", "Stride"}, {"--client", "Stride=http://stride.example/callback"}, {"--output", "yaml"}, {"--clock", "now"},
		{"--driver-token", "short"}, {"--host", "two names"}, {"--now", "1999-12-31"}, {"--now", "2999-01-01"}, {"--seed", "x"},
	} {
		refuse(t, nil, statusUsage, []string{test.flag}, "sandbox", test.flag, test.value)
	}
	refuse(t, nil, statusUsage, []string{"--listen"}, "sandbox", "--driver-token", "0123456789abcdef", "--listen", "192.168.1.7:8443")
	refuse(t, nil, statusUsage, []string{"--forward"}, "sandbox", "--forward", "http://localhost:3000/", "--webhook-url", "https://partner.example/")
	refuse(t, nil, statusFailed, []string{"name must be"}, "sandbox", "--listen", "127.0.0.1:0", "--private-listen", "127.0.0.1:0",
		"--client", "\x1b[31m=https://stride.example/callback")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	refuse(t, nil, statusFailed, []string{"--private-listen"}, "sandbox", "--listen", "127.0.0.1:0", "--private-listen", taken.Addr().String())
}

// No setting of serve enables what the sandbox puts before the service, and serve answers no path of the driver.
func TestServeIsNoSandbox(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	env := with(allSettings(t, db), "CONNECT_OPERATOR_TOKEN="+operatorToken)
	s := start(t, env)
	spec, err := sandboxapi.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	paths := 0
	for path, item := range spec.Paths.Map() {
		path = strings.NewReplacer("{user_id}", uuid.NewString(), "{client_id}", uuid.NewString(),
			"{webhook_id}", "msg_4f1f7d3e52a44c8e9c6c7b0a8f0d9f21").Replace(path)
		for method := range item.Operations() {
			for _, listener := range []string{s.private, s.public} {
				request, err := http.NewRequestWithContext(t.Context(), method, "http://"+listener+path, strings.NewReader(`{}`))
				if err != nil {
					t.Fatal(err)
				}
				request.Header.Set("Content-Type", "application/json")
				request.Header.Set("Authorization", "Bearer "+operatorToken)
				answer, err := http.DefaultClient.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
				if paths++; answer.StatusCode != http.StatusNotFound {
					t.Errorf("%s %s: %d", method, path, answer.StatusCode)
				}
			}
		}
	}
	if paths < 2*20 {
		t.Errorf("%d requests, want two for each operation, of which there are twenty or more", paths)
	}
	if strings.Contains(s.log.String(), slog.LevelError.String()) {
		t.Errorf("the log has errors:\n%s", s.log.String())
	}

	var config app.Config
	for i, field := range reflect.VisibleFields(reflect.TypeOf(config)) { // every setting has some value: whether it is a good one is not asked
		if len(field.Index) == 1 && field.Type.Kind() == reflect.String && field.Tag.Get("kong") != "-" {
			reflect.ValueOf(&config).Elem().FieldByIndex(field.Index).SetString(fmt.Sprintf("sandbox%d", i))
		}
	}
	if err := config.AfterApply(settings.New(nil)); err != nil {
		t.Fatal(err)
	}
	if config.Public != nil || config.Private != nil || config.Webhooks.Transport != nil || config.PrivateListener != nil || config.Observe != nil || config.Clock != nil {
		t.Errorf("a setting of serve leads to %+v", config)
	}
	for _, hooks := range []struct {
		of    reflect.Type
		names []string
	}{
		{reflect.TypeFor[app.Config](), []string{"Public", "Private", "Listener", "PrivateListener", "Observe", "Random", "Clock", "Limits", "ConsoleToken"}},
		{reflect.TypeFor[webhook.Settings](), []string{"Transport", "RootCAs"}},
	} {
		for _, name := range hooks.names {
			if field, found := hooks.of.FieldByName(name); !found || field.Tag.Get("kong") != "-" {
				t.Errorf("kong may set %v.%s", hooks.of, name)
			}
		}
	}
}

// The script of the document for partners does what it says.
func TestSandboxDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../internal/edge/developers/pages/ci.md")
	if err != nil {
		t.Fatal(err)
	}
	const begin = "set -euo pipefail\n"
	_, rest, _ := strings.Cut(string(text), "```bash\n"+begin)
	script, _, found := strings.Cut(rest, "\n```\n")
	if !found {
		t.Fatal("the document has no script")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin, temporary := t.TempDir(), t.TempDir()
	if err := os.Symlink(program, filepath.Join(bin, "connect-svc")); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "bash", "-c", begin+script)
	command.Env = append(os.Environ(), asProgram+"=1", "PATH="+bin+":"+os.Getenv("PATH"), "TMPDIR="+temporary)
	out, err := command.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "the integration holds\n") {
		t.Errorf("%v:\n%s", err, out)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// The variables by which other programs find their database mean nothing to the sandbox, which has its own.
func TestSandboxBesideAnotherDatabase(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), program, "sandbox", "--listen", "127.0.0.1:0", "--private-listen", "127.0.0.1:0", "--output", "json")
	command.Env = append(os.Environ(), asProgram+"=1", "PGHOST=db.example", "PGDATABASE=shop", "PGSSLMODE=require", "PGCHANNELBINDING=require",
		"PGTARGETSESSIONATTRS=standby", "PGOPTIONS=-c search_path=shop", "PGSERVICE=shop")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var printed sandboxapi.Sandbox
	failure := json.NewDecoder(stdout).Decode(&printed)
	_ = command.Process.Signal(os.Interrupt) // it may have ended
	if err := command.Wait(); err != nil || failure != nil || len(printed.Users) != 5 {
		t.Errorf("%v, %v: %s", err, failure, &stderr)
	}
}
