//go:build check

package sdk_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/e2e"
)

// The strictest clients that partners on Node.js have, as they are published and changed in nothing: discovery,
// authorization code with PKCE, refresh, revocation, and the errors that they must understand. The programs that use them
// are in testdata/clients.
func TestStrictClients(t *testing.T) {
	t.Parallel()
	packages := installedClients(t)
	for _, name := range []string{"oauth4webapi", "openid-client"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, err := os.ReadFile(filepath.Join("testdata", "clients", name+".mjs"))
			if err != nil {
				t.Fatal(err)
			}
			program := exec.CommandContext(t.Context(), "node", "--input-type=module", "--eval", string(source))
			program.Dir = packages // where its imports are looked for
			runClient(t, e2e.New(t), program)
		})
	}
}

// installedClients is the folder with the packages of testdata/clients.
func installedClients(t *testing.T) string {
	t.Helper()
	var complaint strings.Builder
	install := exec.CommandContext(t.Context(), "../../../../.ci/npm", filepath.Join("testdata", "clients"))
	install.Stderr = &complaint
	installed, err := install.Output()
	if err != nil {
		t.Fatalf("the clients cannot be had (they are fetched with npm): %v: %s", err, complaint.String())
	}
	return strings.TrimSpace(string(installed))
}

// runClient runs a program as the partner's backend, and plays the user's browser for it.
func runClient(t *testing.T, e *e2e.Service, program *exec.Cmd) {
	t.Helper()
	var complaint strings.Builder
	program.Stderr = &complaint
	authority := authority(t, e)
	program.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+authority, "SSL_CERT_FILE="+authority, "REQUESTS_CA_BUNDLE="+authority,
		"ISSUER="+e.Base, "SCOPE="+scope.All.String(), "CLIENT_ID="+e.Partner.ID.String(), "CLIENT_SECRET="+e.Partner.Secret, "CALLBACK="+e.Partner.CallbackURL)
	input, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	printed := bufio.NewReader(output)
	authorization, err := printed.ReadString('\n')
	if err == nil {
		callback := e.Authorize(t, strings.TrimSpace(authorization))
		_, err = fmt.Fprintf(input, "%s?%s\n", e.Partner.CallbackURL, callback.Encode())
	}
	rest, _ := io.ReadAll(printed)
	if ended := program.Wait(); err != nil || ended != nil || len(rest) > 0 {
		t.Errorf("%v, %v\n%s%s", err, ended, rest, complaint.String())
	}
}
