package sdk_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"connect-svc/internal/testing/wait"
)

// language is one for which there is a driver.
type language struct {
	http2   bool // it speaks HTTP/2, too
	usual   int  // the version of HTTP of the scenarios; 0 is 1
	proxies bool
	pools   bool // connections, to use them again
	byHand  bool // a block of the guides, which refreshes, and says less
	command func() *exec.Cmd
}

// message is a command to a driver, or its answer.
type message map[string]any

// driver is a program that plays one scenario.
type driver struct {
	commands io.Writer
	answers  chan []byte
}

func startDriver(t *testing.T, l language, environment []string) *driver {
	t.Helper()
	program := l.command()
	program.Env = append(environment, program.Env...)
	commands, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	d := &driver{commands: commands, answers: make(chan []byte)}
	program.Stderr = os.Stderr
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(d.answers)
		for lines := bufio.NewScanner(answers); lines.Scan(); {
			d.answers <- bytes.Clone(lines.Bytes())
		}
	}()
	t.Cleanup(func() {
		_ = commands.Close()
		if t.Failed() {
			_ = program.Process.Kill()
		}
		for range d.answers { // until it ends
		}
		if err := program.Wait(); err != nil && !t.Failed() {
			t.Errorf("the driver ends with %v", err)
		}
	})
	return d
}

func (d *driver) ask(t *testing.T, command message) (answer message) {
	t.Helper()
	if _, err := d.commands.Write(append(marshal(command), '\n')); err != nil {
		t.Fatal(err)
	}
	text := wait.For(t, "the driver's answer", d.answers)
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatalf("to %s: %q: %v", command["do"], text, err)
	}
	return answer
}

// The Go SDK plays all scenarios. This test's own program is its driver.
func TestScenariosGo(t *testing.T) {
	t.Parallel()
	playAll(t, language{http2: true, proxies: true, pools: true, command: func() *exec.Cmd {
		program := exec.Command(os.Args[0])
		program.Env = []string{driverVariable + "=yes"}
		return program
	}})
}

// So does the TypeScript SDK, packed and installed as npm does it.
func TestScenariosTypeScript(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if output, err := exec.CommandContext(t.Context(), "../../../../.ci/typescript", folder).CombinedOutput(); err != nil {
		t.Fatalf("the package cannot be made: %v\n%s", err, output)
	}
	program, err := os.ReadFile("testdata/driver.mjs")
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "driver.mjs"), program, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	playAll(t, language{http2: true, proxies: true, pools: true, command: func() *exec.Cmd {
		return exec.Command("node", filepath.Join(folder, "driver.mjs"))
	}})
}

// The blocks of the guides that refresh play the scenarios that say something of them, as they stand there, but for the time limits of a
// request.
func TestScenariosPython(t *testing.T) {
	t.Parallel()
	code := blocksOf(t, "python", "timeout=(10, 30)", "timeout=limits")
	playAll(t, language{proxies: true, byHand: true, command: func() *exec.Cmd {
		program := exec.Command("/usr/bin/python3", "-c", code)                                   // Debian's own, which has the package of requests
		for _, name := range []string{"BASE_URL", "CLIENT_ID", "CLIENT_SECRET", "CALLBACK_URL"} { // until it is told
			program.Env = append(program.Env, "CONNECT_"+name+"=")
		}
		return program
	}})
}

func TestScenariosPHP(t *testing.T) {
	t.Parallel()
	code := strings.TrimPrefix(blocksOf(t, "php", "CURLOPT_CONNECTTIMEOUT => 10, CURLOPT_TIMEOUT => 30", "CURLOPT_TIMEOUT => $GLOBALS['seconds'] ?? 30"), "<?php\n")
	playAll(t, language{proxies: true, byHand: true, command: func() *exec.Cmd {
		return exec.Command("sh", "-c", `exec php -d curl.cainfo="$SSL_CERT_FILE" -d display_errors=stderr -r "$0"`, code)
	}})
}

// blocksOf is all code in a language of the guides that connect and refresh, followed by its driver.
func blocksOf(t *testing.T, language, limits, ours string) (code string) {
	t.Helper()
	for _, page := range []string{"consent", "refresh"} {
		text, err := os.ReadFile("../../../edge/developers/pages/" + page + ".md")
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllSubmatch(text, -1) {
			code += string(block[1]) + "\n\n"
		}
	}
	if !strings.Contains(code, limits) {
		t.Errorf("the guides do not say %s", limits)
	}
	play, err := os.ReadFile("testdata/block." + language)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(code, limits, ours) + string(play)
}
