package developers

import (
	"bufio"
	"bytes"
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

// The quick start works when it is pasted: this does so, block after block, in a copy of the checkout. Two things are not
// as they stand on the page: the ports, since others may have them, and the second terminal. What the guides do with curl
// is done on the way.
func TestQuickStart(t *testing.T) {
	t.Parallel()
	checkout := t.TempDir()
	for _, name := range []string{"api", "cmd", "gen", "internal", "migrations", "sdk"} {
		if err := os.CopyFS(filepath.Join(checkout, name), os.DirFS(filepath.Join("..", "..", "..", name))); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"go.mod", "go.sum", "Makefile"} {
		content, err := os.ReadFile(filepath.Join("..", "..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(checkout, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	examples := examplesOf(t, "quick-start")
	driver := startSandbox(t, checkout, examples[0].code)
	atNoon(t, driver)

	script := "set -euo pipefail\n"
	for _, e := range examples[1:] {
		code := strings.ReplaceAll(e.code, "http://127.0.0.1:9090", driver)
		if e.file == "" {
			script += "echo '# '\n" + code + "\n"
		} else {
			target := filepath.Join(checkout, e.file)
			if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(target, []byte(code), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if strings.Contains(code, "/clock") {
			script += "echo '# '\nrefresh_token=$(echo \"$tokens\" | field refresh_token)\n" + shellOf(t, "refresh")
		}
	}
	script += "echo '# '\n" + shellOf(t, "disconnects")

	pasted := exec.CommandContext(t.Context(), "bash")
	pasted.Dir, pasted.Stdin = checkout, strings.NewReader(script)
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
	if lines := regexp.MustCompile(`(?m)^\d{4}-\d{2}-\d{2} [1-9]\d* steps$`).FindAll(output, -1); len(lines) != 2 || !bytes.Equal(lines[0], lines[1]) {
		t.Errorf("Go and TypeScript say %q\n%s", lines, output)
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

// startSandbox does the first block, on free ports, and returns the address of the driver once it answers.
func startSandbox(t *testing.T, checkout, block string) string {
	t.Helper()
	const command = "bin/connect-svc sandbox\n"
	build, found := strings.CutSuffix(block, command)
	if !found {
		t.Fatalf("the first block does not end with %s", command)
	}
	building := exec.CommandContext(t.Context(), "bash", "-c", build)
	building.Dir = checkout
	if output, err := building.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	sandbox := exec.Command(filepath.Join(checkout, "bin", "connect-svc"), "sandbox", "--listen", "127.0.0.1:0", "--private-listen", "127.0.0.1:0")
	sandbox.Dir = checkout
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
		if strings.Contains(lines.Text(), "api/sandbox.yaml") { // the last line
			break
		}
	}
	if driver == "" {
		t.Fatalf("the sandbox does not say where its driver is\n%s", complaint.String())
	}
	return driver
}
