//go:build check

package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Each language trusts the authority's file by the line that the document gives for it, and reaches the sandbox by address and name.
func TestTrust(t *testing.T) {
	t.Parallel()
	r := start(t)
	installed := strings.TrimSpace(string(succeed(t, exec.CommandContext(t.Context(), "../../../.ci/npm", "testdata/trust"))))
	found := func(pattern string) string {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(installed, "node_modules", pattern))
		if err != nil || len(files) != 1 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		return files[0]
	}
	ca, store := r.described.CaFile, filepath.Join(t.TempDir(), "trust.p12")
	succeed(t, exec.CommandContext(t.Context(), "keytool", "-importcert", "-noprompt", "-alias", "sandbox", "-file", ca,
		"-keystore", store, "-storepass", "changeit"))
	for name, of := range map[string]struct {
		setting string
		command []string
	}{
		"curl":     {"CURL_CA_BUNDLE=" + ca, []string{"sh", "-c", `curl -sS "$CONNECT_BASE_URL/.well-known/oauth-authorization-server"`}},
		"Node.js":  {"NODE_EXTRA_CA_CERTS=" + ca, []string{"node", "get.mjs"}},
		"Bun":      {"NODE_EXTRA_CA_CERTS=" + ca, []string{found("@oven/bun-*/bin/bun"), "get.mjs"}},
		"Deno":     {"DENO_CERT=" + ca, []string{found("@deno/*/deno"), "run", "--allow-all", "--no-config", "get.mjs"}},
		"Go":       {"SSL_CERT_FILE=" + ca, []string{"go", "run", "get.go"}},
		"Python":   {"SSL_CERT_FILE=" + ca, []string{"/usr/bin/python3", "get.py"}},
		"PHP":      {"SSL_CERT_FILE=" + ca, []string{"php", "get.php"}},
		"PHP curl": {"", []string{"php", "-d", "curl.cainfo=" + ca, "curl.php"}},
		"Java":     {"", []string{"java", "-Djavax.net.ssl.trustStore=" + store, "-Djavax.net.ssl.trustStorePassword=changeit", "Get.java"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, host := range []string{"127.0.0.1", "localhost"} {
				command := exec.CommandContext(t.Context(), of.command[0], of.command[1:]...)
				command.Dir = "testdata/trust"
				command.Env = append(os.Environ(), "CONNECT_BASE_URL="+strings.Replace(r.described.BaseUrl, "127.0.0.1", host, 1), of.setting)
				if output := string(succeed(t, command)); !strings.Contains(output, r.described.BaseUrl) {
					t.Errorf("%s: %s", host, output)
				}
			}
		})
	}
}
