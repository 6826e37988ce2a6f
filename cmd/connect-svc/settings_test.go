package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"connect-svc/internal/app/settings"
)

// certificateFiles are a certificate for 127.0.0.1 and its key, and who trusts it.
func certificateFiles(t *testing.T) (cert, key string, trust *x509.CertPool) {
	t.Helper()
	return certificateFilesFor(t, time.Hour)
}

// certificateFilesFor is certificateFiles with a certificate that ends after a time.
func certificateFilesFor(t *testing.T, lifetime time.Duration) (cert, key string, trust *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(lifetime),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	trust = x509.NewCertPool()
	trust.AddCert(parsed)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return writePEM(t, "CERTIFICATE", der), writePEM(t, "PRIVATE KEY", encoded), trust
}

func writePEM(t *testing.T, kind string, der []byte) string {
	t.Helper()
	return writeFile(t, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
}

// operatorToken is what `openssl rand -hex 16` once said.
const operatorToken = "8f1c3e97ab52d046e7b9204f6dc1835a"

// writeFile makes a file of the test's own and returns where it is.
func writeFile(t *testing.T, text string) string {
	t.Helper()
	return writeNamed(t, "file", text)
}

func writeNamed(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Decisions section 1: a bad value stops the program with one line that names the setting, what was wrong and what is
// accepted, with status 2. Nothing is started for it: the database of these settings is down.
func TestServeSettings(t *testing.T) {
	t.Parallel()
	keyset := filepath.Join(t.TempDir(), "keyset.json")
	succeed(t, nil, "", "keys", "create", "--out", keyset)
	cert, key, _ := certificateFiles(t)
	_, otherKey, _ := certificateFiles(t)
	good := map[string]string{
		"CONNECT_BASE_URL":     "https://connect.example.com",
		"CONNECT_DATABASE_URL": "postgres://u:hush@127.0.0.1:1/n",
		"CONNECT_KEYSET_FILE":  keyset,
		"CONNECT_SMTP_URL":     "smtps://u:hush@mail.example.com:465",
		"CONNECT_MAIL_FROM":    "Connect <no-reply@example.com>",
	}
	const notSet = ""
	logo := writeNamed(t, "logo.svg", `<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0h9v9z"/></svg>`)
	released := filepath.Dir(writeNamed(t, "SHA256SUMS", strings.Repeat("00", 32)+"  connect-svc_1.0.0_linux_amd64.tar.gz\n"))
	if err := os.WriteFile(filepath.Join(released, "connect-svc_1.0.0_linux_amd64.tar.gz"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	square, oblong := writeNamed(t, "square.png", pictureOf(t, 64, 64)), writeNamed(t, "oblong.png", pictureOf(t, 64, 32))
	wrongLogos := []string{filepath.Join(t.TempDir(), "none.svg"), t.TempDir(), writeFile(t, "a logo"), writeFile(t, strings.Repeat(" ", 70000))}
	// An environment file makes these of a URL, or of nothing, and other drivers take some of them.
	noDatabases := []string{
		"jdbc:postgresql://h:5432/n?user=u&password=hush", "jdbc:postgresql://h:5432/n", "postgresql+psycopg://u:hush@h/n", "POSTGRES://u:hush@h/n",
		"Host=h;Port=5432;Username=u;Password=hush", "Server=h;Database=n", "postgres:/h", "postgres:h", "postgres//h/n", "h:5432/n", "h",
		"${DATABASE_URL}", "$DATABASE_URL", "$(cat hush)", "postgres://$U:$P@$H/n", "postgres://u:hush@${H}/n", "postgres://u:hush@<host>/n",
		"\"postgres://u:hush@h/n\"", "'postgres://u:hush@h/n'", "\ufeffpostgres://u:hush@h/n", " postgres://u:hush@h/n", "postgres://u:hush@h/n\r",
		"postgres://u:hush@h/n?sslmode=require\nX=y", "CONNECT_DATABASE_URL=postgres://u:hush@h/n", "export X=postgres://u:hush@h/n", "psql postgres://u:hush@h/n",
		"postgres://", "postgres://:@:/", "postgres://u:hush@/n", "postgres://u:hush@:5432/n", "postgres://u:hush@h,,i/n", "postgres:///n", "dbname=n", "user=u password=hush",
		"postgres://u:hush@h/n?a%20b=c",
	}
	noFiles := []string{filepath.Join(t.TempDir(), "none"), t.TempDir(), writeFile(t, "\n"), writeFile(t, strings.Repeat("hush", 20000))}
	tests := []struct {
		name   string // of the setting that is refused
		values map[string]string
		wrong  []string // values of the setting, each of them refused
		right  []string // values of the setting, each of them accepted
	}{
		{
			name:  "CONNECT_BASE_URL",
			wrong: []string{notSet, "http://h", "https://", "https://h/", "https://h/p", "https://h?q", "https://h#f", "https://u@h", "https://H", "https://h:0", "https://h:70000", "https://h:", "h", "https://h h"},
			right: []string{"https://h", "https://h:8443", "https://[::1]:8443", "https://127.0.0.1:1"},
		},
		{
			name:  "CONNECT_DATABASE_URL",
			wrong: slices.Concat([]string{notSet, "mysql://u:hush@h/n", "postgres://u:hush@h:port/n"}, noDatabases),
			right: []string{"postgresql://u:hu%40%2f%25%3f%23sh:@127.0.0.1:1/n", "postgres:///n?host=127.0.0.1&port=1&user=u@realm", "host=127.0.0.1 port=1 user='a b' password=hu@sh"},
		},
		{
			name:  "CONNECT_DATABASE_READ_URL",
			wrong: []string{"replica", "mysql://u:hush@h/n", "postgres://u:hush@h1,h2:port/n"},
			right: []string{notSet, "postgres://u:hush@h1:5432,h2:5433/n", "postgres://u:hush@h1,h2/n?sslmode=require"},
		},
		{
			name:  "CONNECT_KEYSET_FILE",
			wrong: []string{notSet, filepath.Join(t.TempDir(), "none.json"), t.TempDir(), writeFile(t, "{}"), writeFile(t, "keys")},
		},
		{
			name:  "CONNECT_LISTEN",
			wrong: []string{"8443", "h", "h:port", ":70000", ":-1", "::1:8443"},
			right: []string{":8443", "127.0.0.1:0", "[::1]:8443", "localhost:1"},
		},
		{
			name:  "CONNECT_PRIVATE_LISTEN",
			wrong: []string{"9090", ":x"},
			right: []string{"127.0.0.1:0"},
		},
		{
			name: "CONNECT_PRIVATE_HOSTS",
			wrong: []string{"connect.internal:9090", "https://connect.internal", "*.internal", "connect.internal,", "connect internal", "connect.",
				"-connect", "connect..internal", "cönnect", strings.Repeat("a.", 127) + "b"},
			right: []string{notSet, "connect.internal", "connect-svc, Connect.Internal,10.0.0.1,a_b"},
		},
		{
			name:  "CONNECT_BRAND_NAME",
			wrong: []string{" Acme", "Acme ", strings.Repeat("a", 41), "Ac\u202eme", "Ac\tme", "\u2028", "\xff"},
			right: []string{notSet, "Acme Health", "Ødegård & Søn", strings.Repeat("ä", 40)},
		},
		{name: "CONNECT_BRAND_LOGO", wrong: wrongLogos, right: []string{notSet, logo}},
		{name: "CONNECT_BRAND_LOGO_DARK", wrong: wrongLogos, right: []string{notSet, logo}},
		{name: "CONNECT_BRAND_ICON", wrong: append(wrongLogos, logo, oblong), right: []string{notSet, square}},
		{name: "CONNECT_BRAND_COLOR", wrong: []string{"green", "0b5a41", "#fff"}, right: []string{notSet, "#0b5a41", "#5B21B6", "#ffff00", "#ffffff"}},
		{
			name:  "CONNECT_BRAND_SUPPORT_URL",
			wrong: []string{"help@acme.example", "http://acme.example", "mailto:", "mailto:a@b.example,c@d.example", "mailto:a@b.example?subject=x", "javascript:alert(1)"},
			right: []string{notSet, "https://acme.example/help", "mailto:help@acme.example"},
		},
		{
			name:  "CONNECT_SECURITY_CONTACT",
			wrong: []string{"security@acme.example", "http://acme.example", "mailto:", "https://acme.example/\nExpires: x", "mailto:a@b.example\r\nContact: mailto:c@d.example"},
			right: []string{notSet, "https://acme.example/security", "mailto:security@acme.example"},
		},
		{
			name:  "CONNECT_BRAND_PRIVACY_URL",
			wrong: []string{"acme.example", "http://acme.example", "https://", "https://u:p@acme.example", "mailto:help@acme.example", "https://acme.example/" + strings.Repeat("a", 2048)},
			right: []string{notSet, "https://acme.example/privacy"},
		},
		{
			name:  "CONNECT_TEXTS_DIR",
			wrong: []string{filepath.Join(t.TempDir(), "none"), key, filepath.Dir(writeNamed(t, "en.toml", "[consent]\nalow = \"Yes\"")), filepath.Dir(writeNamed(t, "xx.toml", ""))},
			right: []string{notSet, t.TempDir(), filepath.Dir(writeNamed(t, "en.toml", "[consent]\nallow = \"Yes\""))},
		},
		{
			name:  "CONNECT_SANDBOX_PROGRAMS",
			wrong: []string{filepath.Join(t.TempDir(), "none"), t.TempDir(), key, "on", filepath.Dir(writeNamed(t, "SHA256SUMS", "00  connect-svc_linux_amd64\n"))},
			right: []string{notSet, "own", "off", released},
		},
		{
			name:  "CONNECT_OPERATOR_TOKENS_FILE",
			wrong: []string{filepath.Join(t.TempDir(), "none"), t.TempDir(), key, writeFile(t, "hush write sha256:0f")},
			right: []string{notSet, writeFile(t, ""), writeFile(t, "# on call\nada write sha256:"+strings.Repeat("0f", 32)+" # since May\n")},
		},
		{
			name: "CONNECT_OPERATOR_TOKEN",
			wrong: []string{"hush", strings.Repeat("hush", 7) + "123", strings.Repeat("hush", 256) + "1",
				strings.Repeat("hush ", 10), operatorToken + "hush\n", operatorToken + "hushé", strings.Repeat("hush", 16), strings.Repeat("hush-", 12) + operatorToken[:4]},
			right: []string{operatorToken, "Az0-._~+/=by8%3xK&Qw2}h!J5mR;9vT"},
		},
		{
			name:   "CONNECT_TLS_CERT",
			wrong:  []string{filepath.Join(t.TempDir(), "none.pem"), writeFile(t, "no PEM"), key},
			right:  []string{cert},
			values: map[string]string{"CONNECT_TLS_KEY": key},
		},
		{
			name:   "CONNECT_TLS_CERT",
			wrong:  []string{notSet},
			values: map[string]string{"CONNECT_TLS_KEY": key},
		},
		{
			name:   "CONNECT_TLS_KEY",
			wrong:  []string{notSet, otherKey, writeFile(t, "no PEM")},
			right:  []string{key},
			values: map[string]string{"CONNECT_TLS_CERT": cert},
		},
		{
			name:   "CONNECT_PRIVATE_TLS_CERT",
			wrong:  []string{filepath.Join(t.TempDir(), "none.pem"), writeFile(t, "no PEM"), key},
			right:  []string{cert},
			values: map[string]string{"CONNECT_PRIVATE_TLS_KEY": key},
		},
		{
			name:   "CONNECT_PRIVATE_TLS_CERT",
			wrong:  []string{notSet},
			values: map[string]string{"CONNECT_PRIVATE_TLS_KEY": key},
		},
		{
			name:   "CONNECT_PRIVATE_TLS_KEY",
			wrong:  []string{notSet, otherKey, writeFile(t, "no PEM")},
			right:  []string{key},
			values: map[string]string{"CONNECT_PRIVATE_TLS_CERT": cert},
		},
		{name: "CONNECT_READY_LISTEN", wrong: []string{"9091", ":x"}, right: []string{notSet, "127.0.0.1:0"}},
		{name: "CONNECT_LOG_LEVEL", wrong: []string{"loud", "info+2", "0"}, right: []string{"debug", "INFO", "warn", "error"}},
		{
			name:   "CONNECT_DATABASE_URL_FILE",
			values: map[string]string{"CONNECT_DATABASE_URL": ""},
			wrong:  append(noFiles, notSet, writeFile(t, "mysql://u:hush@h/n\n")),
			right:  []string{writeFile(t, "postgres://u:hush@127.0.0.1:1/n\n")},
		},
		{name: "CONNECT_DATABASE_READ_URL_FILE", wrong: append(noFiles, writeFile(t, "hush")), right: []string{notSet, writeFile(t, "postgres://u:hush@h1,h2/n")}},
		{name: "CONNECT_LIMITER_URL_FILE", wrong: append(noFiles, writeFile(t, "http://u:hush@h")), right: []string{notSet, writeFile(t, "rediss://u:hush@h:6379\r\n")}},
		{name: "CONNECT_OPERATOR_TOKEN_FILE", wrong: append(noFiles, writeFile(t, "hush")), right: []string{notSet, writeFile(t, operatorToken+"\n")}},
		{
			name:   "CONNECT_SMTP_URL_FILE",
			values: map[string]string{"CONNECT_SMTP_URL": ""},
			wrong:  append(noFiles, notSet, writeFile(t, "smtp://u:hush@h")),
			right:  []string{writeFile(t, "smtps://u:hush@mail.example.com:465\n")},
		},
		{name: "CONNECT_DRAIN_DELAY", wrong: []string{"-1s", "61s", "1500ms", "5", "x"}, right: []string{"0", "0s", "5s", "1m"}},
		{
			name:  "CONNECT_TRUSTED_PROXIES",
			wrong: []string{"10.0.0.1", "10.0.0.0/33", "10.0.0.0/8,", "all", "::ffff:10.0.0.0/104"}, // of IPv4, which no address would be in
			right: []string{"10.0.0.0/8", "10.0.0.0/8, 2001:db8::/32"},
		},
		{
			name:  "CONNECT_LIMITER_URL",
			wrong: []string{"localhost:6379", "http://u:hush@h:6379", "redis://u:hush@localhost:6379/x", "redis://u:hush@h:6379", "redis://u:hush@h?tls=on"},
			right: []string{notSet, "redis://localhost:6379", "rediss://u:hush@valkey.example/1", "redis://u:hush@h:6379?tls=off"},
		},
		{
			name:  "CONNECT_SMTP_URL",
			wrong: []string{notSet, "mail.example.com:25", "http://u:hush@h:25", "smtp://", "smtp://u:hush@h:port", "smtp://u:hush@h:25?tls=off"},
			right: []string{"smtp://127.0.0.1:25", "smtp://mail:25", "smtp://mail:25?tls=off", "smtps://u:p@mail.example.com:465"},
		},
		{
			name:  "CONNECT_MAIL_FROM",
			wrong: []string{notSet, "nobody", "a@b, c@d"},
			right: []string{"no-reply@example.com"},
		},
		{
			name:  "CONNECT_ACCESS_TOKEN_LIFETIME",
			wrong: []string{"0s", "301s", "-1s", "300", "1500ms", "long"},
			right: []string{"1s", "300s", "5m"},
		},
		{name: "CONNECT_CODE_LIFETIME", wrong: []string{"0s", "121s", "x"}, right: []string{"1s", "120s"}},
		{name: "CONNECT_REQUEST_LIFETIME", wrong: []string{"0s", "601s", "x"}, right: []string{"1s", "10m"}},
		{name: "CONNECT_CURSOR_LIFETIME", wrong: []string{"0s", "901s", "x"}, right: []string{"1s", "15m"}},
		{name: "CONNECT_REFRESH_INACTIVITY", wrong: []string{"0s", "-1h", "x"}, right: []string{"1s", "87600h"}},
		{name: "CONNECT_ACTIVITY_HISTORY", wrong: []string{"-1h", "1500ms", "400", "x"}, right: []string{"0", "24h", "720h"}},
		{name: "CONNECT_AUDIT_RETENTION", wrong: []string{"-1h", "1500ms", "400", "x"}, right: []string{"0", "1s", "9600h"}},
		{
			name:  "CONNECT_ACTIVITY_UPDATED_WINDOW",
			wrong: []string{"0s", "61m", "1500ms", "60", "x"},
			right: []string{"1s", "60s", "1h"},
		},
		{
			name:  "CONNECT_WEBHOOK_ALLOW_CIDRS",
			wrong: []string{"127.0.0.1", "10.0.0.0/33", "10.0.0.0/8,", "all", "::ffff:127.0.0.0/104"},
			right: []string{notSet, "127.0.0.0/8", "127.0.0.0/8, ::1/128"},
		},
		{name: "CONNECT_OPERATOR_WEBHOOK_ALLOW_CIDRS", wrong: []string{"10.0.0.1", "10.0.0.0/8,"}, right: []string{notSet, "10.0.0.0/8"}},
		{
			name:  "CONNECT_SDK_MODULE",
			wrong: []string{"connect-go", "https://go.example.com/connect-go", "go.example.com/connect-go/", "go.example.com/connect-go/v2", "gopkg.in/connect.v1", "go.example.com:8443/connect", "go.example.com/a b"},
			right: []string{notSet, "go.example.com/connect-go", "github.com/Acme/Connect"},
		},
		{name: "CONNECT_RECEIPTS", wrong: []string{"On", "yes"}, right: []string{"on", "off"}},
		{name: "CONNECT_SERVER_NAME", wrong: []string{"web 1", "web/1", strings.Repeat("a", 81)}, right: []string{notSet, "web-1", "web_1.example:8443"}},
		{name: "CONNECT_ACCOUNT_COPY", wrong: []string{"On", "yes"}, right: []string{"on", "off"}},
		{name: "CONNECT_PARTNER_PORTAL", wrong: []string{"On", "yes"}, right: []string{"on", "off"}},
		{name: "CONNECT_PARTNER_PORTAL_CHANGES", wrong: []string{"all", "webhooks,", "secrets,secrets"}, right: []string{"", "webhooks", "secrets,webhooks"}},
		{name: "CONNECT_DEVELOPERS_SITE", wrong: []string{"On", "yes", "true", "1", "on off"}, right: []string{"on", "off"}},
		{name: "CONNECT_SIGN_IN_CODES_PER_EMAIL", wrong: []string{"-1", "1.5", "many", "1000001"}, right: []string{"0", "5"}},
		{name: "CONNECT_SIGN_IN_CODES_PER_NETWORK", wrong: []string{"-1", "1.5", "many", "1000001"}, right: []string{"0", "30"}},
	}

	environ := func(values map[string]string, name, value string) (list []string) {
		for _, set := range []map[string]string{good, values, {name: value}} {
			for name, value := range set {
				if name != "" {
					list = append(list, name+"="+value) // the last one of a name counts
				}
			}
		}
		return list
	}
	flagOf := func(name string) string {
		return "--" + strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "CONNECT_"), "_", "-"))
	}
	tested := map[string]bool{}
	var bad, fine []map[string]string // nth values of all settings that do not depend on others, which are tried together
	for _, tt := range tests {
		tested[tt.name] = true
		if tt.values == nil && !strings.HasSuffix(tt.name, "_FILE") {
			bad, fine = nth(bad, tt.name, tt.wrong), nth(fine, tt.name, tt.right)
			continue
		}
		flag := flagOf(tt.name)
		for _, value := range tt.wrong {
			t.Run(tt.name+"="+value, func(t *testing.T) {
				t.Parallel()
				got := call(t, environ(tt.values, tt.name, value), "", "serve")
				checkRefusal(t, got, statusUsage, []string{strings.TrimSuffix(tt.name, "_FILE"), strings.TrimSuffix(flag, "-file"), "; accepted: "})
				if strings.Contains(got.stderr, "hush") {
					t.Errorf("the line holds a password: %s", got.stderr)
				}
			})
		}
		for _, value := range tt.right {
			t.Run(tt.name+"="+value, func(t *testing.T) {
				t.Parallel()
				refuse(t, environ(tt.values, tt.name, value), statusFailed, []string{"connection refused"}, "serve")
			})
		}
	}

	for i, values := range bad {
		t.Run(fmt.Sprintf("%d wrong ones at once", i), func(t *testing.T) {
			t.Parallel()
			got := call(t, environ(values, "", ""), "", "serve")
			lines := strings.Split(strings.TrimSuffix(got.stderr, "\n"), "\n")
			if got.status != statusUsage || got.stdout != "" || len(lines) != len(values) {
				t.Errorf("status %d, stdout %q, %d lines for %d problems", got.status, got.stdout, len(lines), len(values))
			}
			for name, value := range values {
				if !slices.ContainsFunc(lines, func(line string) bool {
					return strings.HasPrefix(line, "connect-svc: "+name+" ("+flagOf(name)+")") && strings.Contains(line, "; accepted: ")
				}) {
					t.Errorf("no line refuses %s=%q", name, value)
				}
			}
			if strings.Contains(got.stderr, "hush") {
				t.Errorf("the lines hold a password: %s", got.stderr)
			}
		})
	}
	for i, values := range fine {
		t.Run(fmt.Sprintf("%d right ones at once", i), func(t *testing.T) {
			t.Parallel()
			refuse(t, environ(values, "", ""), statusFailed, []string{"connection refused"}, "serve")
		})
	}

	for _, leaf := range modelOf(t).Leaves(false) {
		if leaf.Name != "serve" {
			continue
		}
		help := succeed(t, nil, "", "serve", "--help")
		for _, flag := range slices.Concat(leaf.AllFlags(false)...) {
			name := settings.Variable(flag.Name)
			if !flag.Tag.Has("setting") {
				continue
			}
			if !tested[name] {
				t.Errorf("%s is not tested", name)
			}
			if !slices.ContainsFunc(strings.Split(help, "\n"), func(line string) bool {
				return strings.Contains(line, "--"+flag.Name) && strings.Contains(line, name) && strings.Contains(line, flag.Help)
			}) {
				t.Errorf("serve --help has no line for %s", name)
			}
		}
	}
}

// nth gives the nth of the values to the nth of the maps, as that of a name.
func nth(maps []map[string]string, name string, values []string) []map[string]string {
	for i, value := range values {
		if i == len(maps) {
			maps = append(maps, map[string]string{})
		}
		maps[i][name] = value
	}
	return maps
}

// A password whose special characters are not percent-encoded is refused with a hint, and no piece of it is printed.
func TestPasswordInURL(t *testing.T) {
	t.Parallel()
	hosts := map[string]string{
		"CONNECT_DATABASE_URL": "postgres://user:%s@db.example:5432/n", "CONNECT_DATABASE_READ_URL": "postgres://user:%s@db.example,other.example/n",
		"CONNECT_LIMITER_URL": "rediss://user:%s@redis.example:6379/0", "CONNECT_SMTP_URL": "smtps://user:%s@mail.example:465",
	}
	passwords := []string{"hush@hush", "hush/hush", "hush@hush/hush", "12/hush", "12?hush", "12#hush", "hush#hush", "hush?hush", "hush%hush", "hush%2", "hush hush", "@hush", "hush@"}
	for _, password := range passwords {
		t.Run(password, func(t *testing.T) {
			t.Parallel()
			var env []string
			for name, url := range hosts {
				env = append(env, name+"="+fmt.Sprintf(url, password))
			}
			got := call(t, env, "", "serve")
			for name := range hosts {
				found := slices.ContainsFunc(strings.Split(got.stderr, "\n"), func(line string) bool {
					return strings.HasPrefix(line, "connect-svc: "+name+" (") && strings.Contains(line, "is not percent-encoded: @ is %40")
				})
				if !found {
					t.Errorf("no hint for %s:\n%s", name, got.stderr)
				}
			}
			if got.status != statusUsage || strings.Contains(got.stderr, "hush") || strings.Contains(got.stderr, "12") {
				t.Errorf("status %d, and a piece of the password, or none:\n%s", got.status, got.stderr)
			}
		})
	}
	// No other setting has a password. One that is there by mistake is not printed either.
	for _, name := range []string{"CONNECT_BASE_URL", "CONNECT_LISTEN"} {
		if got := call(t, []string{name + "=https://user:hush@connect.example"}, "", "serve"); strings.Contains(got.stderr, "hush") {
			t.Errorf("%s:\n%s", name, got.stderr)
		}
	}
	// A mail server's user who is named by an address, which is common, cannot be misread.
	env := []string{"CONNECT_SMTP_URL=smtps://user@example.com:secret%40secret@mail.example:465", "CONNECT_LIMITER_URL=rediss://:a:b@redis.example"}
	if got := call(t, env, "", "serve"); strings.Contains(got.stderr, "SMTP") || strings.Contains(got.stderr, "LIMITER") {
		t.Errorf("refused:\n%s", got.stderr)
	}
}

func TestSettingsAsFlags(t *testing.T) {
	t.Parallel()
	got := call(t, nil, "", "serve", "--base-url", "http://h")
	if got.status != statusUsage || !strings.Contains(got.stderr, `connect-svc: CONNECT_BASE_URL (--base-url): "http://h" is not an https origin`) {
		t.Errorf("status %d, %s", got.status, got.stderr)
	}
}
