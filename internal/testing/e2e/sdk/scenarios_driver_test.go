package sdk_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"connect-svc/internal/testing/wait"
)

// language is one for which there is a driver.
type language struct {
	http2   bool // it speaks HTTP/2, too
	goaway  bool // its HTTP client tells the last stream of a GOAWAY
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
	playAll(t, language{http2: true, goaway: true, pools: true, command: func() *exec.Cmd {
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
	playAll(t, language{http2: true, pools: true, command: func() *exec.Cmd {
		return exec.Command("node", filepath.Join(folder, "driver.mjs"))
	}})
}
