//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file with a secret in it that others may read or change is refused as the keyset is, at the start and by the check.
func TestSecretFilesOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	keyset := filepath.Join(t.TempDir(), "keyset.json")
	succeed(t, nil, "", "keys", "create", "--out", keyset)
	cert, key, _ := certificateFiles(t)
	const database, server = "postgres://u:hush@127.0.0.1:1/nothing", "smtp://127.0.0.1:1"
	env := []string{
		"CONNECT_BASE_URL=https://127.0.0.1", "CONNECT_DATABASE_URL=" + database, "CONNECT_KEYSET_FILE=" + keyset,
		"CONNECT_SMTP_URL=" + server, "CONNECT_MAIL_FROM=no-reply@example.com",
		"CONNECT_TLS_CERT=" + cert, "CONNECT_PRIVATE_TLS_CERT=" + cert, "CONNECT_TLS_KEY=" + key, "CONNECT_PRIVATE_TLS_KEY=" + key,
	}
	for name, file := range map[string]string{
		"CONNECT_KEYSET_FILE":            copyOf(t, keyset),
		"CONNECT_DATABASE_URL_FILE":      writeFile(t, database),
		"CONNECT_DATABASE_READ_URL_FILE": writeFile(t, database),
		"CONNECT_LIMITER_URL_FILE":       writeFile(t, "redis://u:hush@127.0.0.1:1"),
		"CONNECT_SMTP_URL_FILE":          writeFile(t, server),
		"CONNECT_OPERATOR_TOKEN_FILE":    writeFile(t, operatorToken),
		"CONNECT_OPERATOR_TOKENS_FILE":   writeFile(t, "ada write sha256:"+strings.Repeat("0f", 32)),
		"CONNECT_TLS_KEY":                copyOf(t, key),
		"CONNECT_PRIVATE_TLS_KEY":        copyOf(t, key),
		"--config":                       writeFile(t, "CONNECT_SMTP_URL="+server),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env, args := with(env, name+"="+file), []string{}
			if secret, isFile := strings.CutSuffix(name, "_FILE"); isFile && name != "CONNECT_KEYSET_FILE" && name != "CONNECT_OPERATOR_TOKENS_FILE" {
				env = with(env, secret+"=")
			}
			if name == "--config" {
				args = []string{name, file}
			}
			for mode, taken := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o440: true, 0o640: true, 0o644: false, 0o606: false, 0o660: false, 0o602: false} {
				if err := os.Chmod(file, mode); err != nil {
					t.Fatal(err)
				}
				says := fmt.Sprintf("has mode %04o, so that others can read or change it: chmod 0640 or less", mode)
				serve := call(t, env, "", append([]string{"serve"}, args...)...)
				check := call(t, env, "", append([]string{"check", "--output", "json"}, args...)...)
				told := strings.Contains(serve.stderr, says) && strings.Contains(serve.stderr, name) && serve.status == statusUsage
				if told == taken || strings.Contains(serve.stderr, "hush") {
					t.Errorf("serve, mode %04o: status %d, %s", mode, serve.status, serve.stderr)
				}
				if text := check.stdout + check.stderr; strings.Contains(text, says) == taken || taken != json.Valid([]byte(check.stdout)) && name == "--config" {
					t.Errorf("check, mode %04o: status %d, %s", mode, check.status, text)
				}
			}
		})
	}
}

// copyOf is a file of its own with what is in another.
func copyOf(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, string(text))
}
