package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"connect-svc/internal/admin/portal"
	"connect-svc/internal/app/settings"
)

// All that is wrong is told at one start, a line each.
func TestAllBadSettingsAreTold(t *testing.T) {
	t.Parallel()
	file := writeNamed(t, "settings", "# the mail server\n\nCONNECT_SMTP_URL = http://u:hush@h\nCONNECT_BASE_ULR=https://h\nCONNECT_LISTEN\n"+
		"CONNECT_BRAND_NAME='Acme'\nCONNECT_SMTP_URL=smtp://h:25\nCONNECT_CONFIG=x\n"+
		"postgres://u:hush@h/n?sslmode=require\n")
	got := call(t, []string{"CONNECT_BASE_URL=http://h", "CONNECT_TLS_CERT=/none"}, "", "serve", "--config", file, "--code-lifetime", "1h")
	if got.status != statusUsage || got.stdout != "" {
		t.Errorf("status %d, stdout %q", got.status, got.stdout)
	}
	lines := strings.Split(strings.TrimSpace(got.stderr), "\n")
	for _, want := range []string{
		file + `:4: "CONNECT_BASE_ULR" is not a setting`, file + ":5: is not of the form CONNECT_NAME=value",
		file + ":6: CONNECT_BRAND_NAME is in quotes", file + ":7: CONNECT_SMTP_URL is set a second time", file + `:8: "CONNECT_CONFIG" is not a setting`,
		file + ":9: is not of the form CONNECT_NAME=value",
		`CONNECT_CODE_LIFETIME (--code-lifetime): "1h" is out of bounds`, "CONNECT_BASE_URL (--base-url):", "CONNECT_DATABASE_URL (--database-url): is not set",
		"CONNECT_KEYSET_FILE (--keyset-file): is not set", "CONNECT_SMTP_URL (--smtp-url): is not the URL of a mail server",
		"CONNECT_MAIL_FROM (--mail-from): is not set", "CONNECT_TLS_KEY (--tls-key): is not set, but CONNECT_TLS_CERT is",
	} {
		n := 0
		for _, line := range lines {
			if strings.HasPrefix(line, "connect-svc: "+want) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d lines begin with %q", n, want)
		}
	}
	if len(lines) != 13 || strings.Contains(got.stderr, "hush") {
		t.Errorf("%d lines, want 13, none with a password:\n%s", len(lines), got.stderr)
	}
}

// Flags win over the environment, and the environment over the file.
func TestOrderOfSettings(t *testing.T) {
	t.Parallel()
	const inFile, inEnvironment, inFlag = "postgres://u@127.0.0.1:1/file", "postgres://u@127.0.0.1:1/environment", "postgres://u@127.0.0.1:1/flag"
	file := writeFile(t, "CONNECT_DATABASE_URL="+inFile+"\nCONNECT_LISTEN=:1 # no comment\n")
	for name, tt := range map[string]struct {
		env, args []string
		says      string
	}{
		"file":            {nil, nil, `database "file"`},
		"environment":     {[]string{"CONNECT_DATABASE_URL=" + inEnvironment}, nil, `database "environment"`},
		"set to nothing":  {[]string{"CONNECT_DATABASE_URL="}, nil, `database "file"`},
		"flag":            {[]string{"CONNECT_DATABASE_URL=" + inEnvironment}, []string{"--database-url", inFlag}, `database "flag"`},
		"flag, no effect": {nil, []string{"--output", "json"}, `database "file"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refuse(t, tt.env, statusFailed, []string{tt.says, "connection refused"}, append([]string{"user", "list", "--config", file}, tt.args...)...)
		})
	}
}

// The files of settings and secrets are UTF-8, with a byte order mark or without. Another encoding is refused by its name.
func TestEncodingOfSettings(t *testing.T) {
	t.Parallel()
	const url = "postgres://u:hush@127.0.0.1:1/n"
	wide := func(text string) (utf16 string) {
		for _, c := range []byte(text) {
			utf16 += string([]byte{c, 0})
		}
		return "\xff\xfe" + utf16
	}
	for name, args := range map[string][]string{
		"settings": {"--config", writeFile(t, "\ufeffCONNECT_DATABASE_URL="+url)},
		"a secret": {"--database-url-file", writeFile(t, "\ufeff"+url+"\r\n")},
	} {
		t.Run(name+" with a mark", func(t *testing.T) {
			t.Parallel()
			refuse(t, nil, statusFailed, []string{"127.0.0.1:1", "connection refused"}, append([]string{"user", "list"}, args...)...)
		})
	}
	for name, tt := range map[string]struct{ content, says string }{
		"UTF-16":  {wide("CONNECT_DATABASE_URL=" + url), "must be UTF-8, not UTF-16"},
		"Latin-1": {"CONNECT_BRAND_NAME=Caf\xe9\n", "must be UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := writeFile(t, tt.content)
			refuse(t, nil, statusUsage, []string{"--config", tt.says}, "user", "list", "--config", file)
			refuse(t, nil, statusUsage, []string{"CONNECT_DATABASE_URL_FILE (--database-url-file): " + tt.says}, "user", "list", "--database-url-file", file)
		})
	}
}

// A setting that is set to nothing counts as not set. If it has a default, and accepts nothing, nothing is its value instead.
func TestSetToNothing(t *testing.T) {
	t.Parallel()
	both, nothing, webhooks := portal.Changes{Webhooks: true, Secrets: true}, portal.Changes{}, portal.Changes{Webhooks: true}
	for name, tt := range map[string]struct {
		env  []string
		file string
		args []string
		want portal.Changes
		as   string // of the log level
	}{
		"not set":                      {nil, "", nil, both, "INFO"},
		"environment":                  {[]string{"CONNECT_PARTNER_PORTAL_CHANGES=", "CONNECT_LOG_LEVEL="}, "", nil, nothing, "INFO"},
		"file":                         {nil, "CONNECT_PARTNER_PORTAL_CHANGES=\nCONNECT_LOG_LEVEL=\n", nil, nothing, "INFO"},
		"flag":                         {nil, "", []string{"--partner-portal-changes="}, nothing, "INFO"},
		"environment before the file":  {[]string{"CONNECT_PARTNER_PORTAL_CHANGES=", "CONNECT_LOG_LEVEL="}, "CONNECT_PARTNER_PORTAL_CHANGES=webhooks\nCONNECT_LOG_LEVEL=warn\n", nil, nothing, "WARN"},
		"something before nothing":     {[]string{"CONNECT_PARTNER_PORTAL_CHANGES=webhooks", "CONNECT_LOG_LEVEL=warn"}, "CONNECT_PARTNER_PORTAL_CHANGES=\nCONNECT_LOG_LEVEL=\n", nil, webhooks, "WARN"},
		"flag before the environment":  {[]string{"CONNECT_PARTNER_PORTAL_CHANGES="}, "", []string{"--partner-portal-changes", "webhooks"}, webhooks, "INFO"},
		"nothing before something set": {[]string{"CONNECT_PARTNER_PORTAL_CHANGES=webhooks"}, "", []string{"--partner-portal-changes", ""}, nothing, "INFO"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			line, from := parseServe(t, tt.env, tt.file, tt.args...)
			if got := line.Serve.PortalChanges; got != tt.want {
				t.Errorf("changes of the portal: %+v, want %+v", got, tt.want)
			}
			if got := line.Serve.LogLevel.String(); got != tt.as {
				t.Errorf("log level %s, want %s", got, tt.as)
			}
			for _, flag := range []string{"partner-portal-changes", "log-level"} {
				if from.Refused(flag) {
					t.Errorf("--%s is refused: %v", flag, from.Problems)
				}
			}
		})
	}

	_, unset := parseServe(t, nil, "")
	_, standard := parseServe(t, nil, "CONNECT_PARTNER_PORTAL_CHANGES=webhooks,secrets\n")
	_, none := parseServe(t, nil, "CONNECT_PARTNER_PORTAL_CHANGES=\n")
	if got := none.NeedRestart(unset); !slices.Contains(got, "CONNECT_PARTNER_PORTAL_CHANGES") {
		t.Errorf("what became nothing needs no restart: %v", got)
	}
	if got := standard.NeedRestart(unset); slices.Contains(got, "CONNECT_PARTNER_PORTAL_CHANGES") {
		t.Errorf("the default needs a restart: %v", got)
	}
	_, fixed := parseServe(t, []string{"CONNECT_PARTNER_PORTAL_CHANGES=", "CONNECT_LOG_LEVEL="}, "")
	if diff := cmp.Diff([]string{"CONNECT_PARTNER_PORTAL_CHANGES"}, fixed.Fixed()); diff != "" {
		t.Errorf("variables of the environment that count (-want +got):\n%s", diff)
	}
}

// parseServe reads the settings of serve.
func parseServe(t *testing.T, env []string, file string, args ...string) (*commands, *settings.Source) {
	t.Helper()
	parser, line, from := newParser(&program{ctx: t.Context(), environ: env, stdout: io.Discard, stderr: io.Discard})
	if _, err := parser.Parse(append([]string{"serve", "--config", writeFile(t, file)}, args...)); err != nil {
		t.Fatal(err)
	}
	return line, from
}

// A secret and its file are one setting: both at once is an error, wherever either comes from.
func TestSecretAndItsFile(t *testing.T) {
	t.Parallel()
	const url = "postgres://u:hush@127.0.0.1:1/n"
	file := writeFile(t, url+"\n")
	inFile := writeFile(t, "CONNECT_DATABASE_URL_FILE="+file+"\n")
	for name, tt := range map[string]struct{ env, args []string }{
		"environment":       {[]string{"CONNECT_DATABASE_URL=" + url, "CONNECT_DATABASE_URL_FILE=" + file}, nil},
		"flags":             {nil, []string{"--database-url", url, "--database-url-file", file}},
		"flags, reversed":   {nil, []string{"--database-url-file", file, "--database-url", url}},
		"flag and variable": {[]string{"CONNECT_DATABASE_URL_FILE=" + file}, []string{"--database-url", url}},
		"variable and flag": {[]string{"CONNECT_DATABASE_URL=" + url}, []string{"--database-url-file", file}},
		"file and variable": {[]string{"CONNECT_DATABASE_URL=" + url}, []string{"--config", inFile}},
		"file and flag":     {nil, []string{"--config", inFile, "--database-url", url}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refuse(t, tt.env, statusUsage, []string{"CONNECT_DATABASE_URL (--database-url): is set, and so is CONNECT_DATABASE_URL_FILE; accepted: one of the two"},
				append([]string{"user", "list"}, tt.args...)...)
		})
	}
	for name, args := range map[string][]string{"flag": {"--database-url-file", file}, "settings file": {"--config", inFile}} {
		t.Run("only a file, "+name, func(t *testing.T) {
			t.Parallel()
			refuse(t, nil, statusFailed, []string{"127.0.0.1:1", "connection refused"}, append([]string{"user", "list"}, args...)...)
		})
	}
	refuse(t, nil, statusUsage, []string{"--config", "no such file"}, "user", "list", "--config", "/none")
}
