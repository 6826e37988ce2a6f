//go:build check

package sdk_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"connect.invalid/connect-go/connect"

	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/pgtest"
)

// The Python SDK plays the scenarios of TestGoSDK against the service, with threads and with asyncio, on Debian's Python and its packages. Then
// the first program of its README runs as it stands there.
func TestPythonSDK(t *testing.T) {
	t.Parallel()
	folder, err := filepath.Abs("../../../../sdk/python")
	if err != nil {
		t.Fatal(err)
	}
	e := e2e.New(t)
	control := newControl(t, e)
	database := pgtest.NewEmpty(t).URL
	connections := connectionsOfGo(t, database)
	tests := exec.CommandContext(t.Context(), "/usr/bin/python3", "-B", "-m", "unittest", "discover", "-v", "-s", "tests", "-t", "tests")
	tests.Dir = folder
	environment := append(os.Environ(), "PYTHONPATH="+folder, "CONTROL_URL="+control.url, "SSL_CERT_FILE="+authority(t, e), "DATABASE_URL="+database, "NO_PROXY=127.0.0.1")
	tests.Env = environment
	var output bytes.Buffer
	tests.Stdout, tests.Stderr = &output, &output
	if err := control.while(tests.Run); err != nil {
		t.Fatalf("%v\n%s", err, output.String())
	}
	for name := range sdkScenarios {
		for _, kind := range []string{"threads/memory", "threads/PostgreSQL", "asyncio/memory", "asyncio/PostgreSQL"} {
			if !strings.Contains(output.String(), kind+"/"+name+" ... ok\n") {
				t.Errorf("Python does not play the scenario %q with %s", name, kind)
			}
		}
	}
	connections.check(t, "python")

	readme, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := strings.Cut(string(readme), "```python\n")
	program, _, _ = strings.Cut(program, "```")
	u := newSDKUser(t, e, connect.NewMemoryStore())
	example := exec.CommandContext(t.Context(), "/usr/bin/python3", "-B", "-c", program)
	// The machine's day begins before that of UTC. A read may end tomorrow in UTC, and not later.
	example.Env = append(environment, "TZ=EAST-24", "PORT=0", "CONNECT_BASE_URL="+u.Base, "CONNECT_CLIENT_ID="+u.Partner.ID.String(),
		"CONNECT_CLIENT_SECRET="+u.Partner.Secret, "CONNECT_CALLBACK_URL="+u.Partner.CallbackURL)
	u.playReadme(t, example)
	example = exec.CommandContext(t.Context(), "/usr/bin/python3", "-B", "-c", program)
	example.Dir = folder
	endReadme(t, example)
}
