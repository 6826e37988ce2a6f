//go:build check

package developers

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The quick start works when it is pasted: this does so, block after block, in an empty folder. Four things are not as they
// stand on the page: the ports, since others may have them, the second terminal, the service that hands out the SDKs, which
// is the sandbox, and Python, which is Debian's and has its packages. TestSandboxFromSDKs starts one as the page says. The guides' curl commands run on the way.
func TestQuickStart(t *testing.T) {
	t.Parallel()
	folder, program := t.TempDir(), filepath.Join(t.TempDir(), "connect-svc")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, "connect-svc/cmd/connect-svc")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as `make build` does
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	examples := examplesOf(t, "quick-start")
	installs, start, examples := examples[:3], examples[3], examples[4:]
	if start.code != "npx connect-sandbox\n" {
		t.Fatalf("the sandbox is started with %q", start.code)
	}
	driver := startSandbox(t, program)
	sandbox := askSandbox(t, driver)
	atNoon(t, driver)
	tryAsPartner(t, sandbox.BaseURL, sandbox.CAFile)

	script := "set -euo pipefail\n"
	for _, e := range installs {
		script += strings.NewReplacer(nobodysURL, sandbox.BaseURL, "python3 -m venv", "/usr/bin/python3 -m venv --system-site-packages").Replace(e.code)
	}
	for _, e := range examples {
		code := strings.ReplaceAll(e.code, "http://127.0.0.1:9090", driver)
		if e.file == "" {
			script += "echo '# '\n" + code + "\n"
		} else {
			write(t, folder, e.file, code)
		}
		if strings.Contains(code, "/clock") {
			script += "echo '# '\nrefresh_token=$(echo \"$tokens\" | field refresh_token)\n" + shellOf(t, "refresh")
		}
	}
	script += "echo '# '\n" + shellOf(t, "disconnects")

	pasted := exec.CommandContext(t.Context(), "bash")
	pasted.Dir, pasted.Stdin, pasted.Env = folder, strings.NewReader(script), newcomer(t, sandbox.CAFile)
	output, err := pasted.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	day := regexp.MustCompile(`"date":"\d{4}-\d{2}-\d{2}","steps":[1-9]`)
	var read []int // rows of each answer with steps
	for part := range strings.SplitSeq(string(output), "\n# \n") {
		if rows := len(day.FindAllString(part, -1)); rows > 0 {
			read = append(read, rows)
		}
	}
	if len(read) != 2 || read[0] != 1 || read[1] != 8 {
		t.Errorf("with curl, the days are %v, want 1 and, after a week, 8\n%s", read, output)
	}
	if lines := regexp.MustCompile(`(?m)^\d{4}-\d{2}-\d{2} [1-9]\d* steps$`).FindAll(output, -1); len(lines) != 3 || !bytes.Equal(lines[0], lines[1]) || !bytes.Equal(lines[0], lines[2]) {
		t.Errorf("Go, TypeScript and Python say %q\n%s", lines, output)
	}
}

// shellOf is what a guide does with curl.
func shellOf(t *testing.T, page string) (script string) {
	t.Helper()
	for _, e := range examplesOf(t, page) {
		if e.language == "bash" {
			script += e.code
		}
	}
	return script + "echo\n"
}

// atNoon moves the clock on to noon in UTC, when all users have the same day: in the hour before midnight the days of a week
// are counted from the user's tomorrow.
func atNoon(t *testing.T, driver string) {
	t.Helper()
	now := time.Now().UTC()
	noon := now.Truncate(24 * time.Hour).Add(12 * time.Hour)
	if noon.Before(now) {
		noon = noon.Add(24 * time.Hour)
	}
	body := fmt.Sprintf(`{"advance_seconds":%d}`, int(noon.Sub(now).Seconds()))
	answer, err := http.Post(driver+"/sandbox/clock", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("the clock: %s", answer.Status)
	}
}

// askSandbox asks the driver what there is.
func askSandbox(t *testing.T, driver string) (sandbox struct {
	BaseURL string `json:"base_url"`
	CAFile  string `json:"ca_file"`
}) {
	t.Helper()
	answer, err := http.Get(driver + "/sandbox")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&sandbox); err != nil {
		t.Fatal(err)
	}
	return sandbox
}

// startSandbox does it on free ports, and returns the address of the driver once it answers.
func startSandbox(t *testing.T, program string) string {
	t.Helper()
	sandbox := exec.Command(program, "sandbox", "--listen", "127.0.0.1:0", "--private-listen", "127.0.0.1:0")
	sandbox.Dir = t.TempDir()
	var complaint bytes.Buffer
	sandbox.Stderr = &complaint
	screen, err := sandbox.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := sandbox.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = sandbox.Process.Signal(os.Interrupt)
		if err := sandbox.Wait(); err != nil {
			t.Errorf("the sandbox ended with %v\n%s", err, complaint.String())
		}
	})
	driver := ""
	for lines := bufio.NewScanner(screen); lines.Scan(); {
		if address := regexp.MustCompile(`The driver\s+(http://\S+)/sandbox`).FindStringSubmatch(lines.Text()); address != nil {
			driver = address[1]
		}
		if strings.Contains(lines.Text(), "/developers/sandbox.html") { // the last line
			break
		}
	}
	if driver == "" {
		t.Fatalf("the sandbox does not say where its driver is\n%s", complaint.String())
	}
	return driver
}
