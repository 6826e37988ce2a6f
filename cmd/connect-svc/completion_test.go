package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// The answers to a shell that asks how a line goes on.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"connect-svc key":                             {"keys"},
		"connect-svc connection ":                     {"disconnect", "ended", "list"},
		"connect-svc connection disconnect --cl":      {"--client"},
		"connect-svc user list --output ":             {"json", "text"},
		"connect-svc sand":                            {"sandbox"},
		"connect-svc sandbox --private":               {"--private-listen"},
		"connect-svc completion ":                     {"bash", "fish", "zsh"},
		"connect-svc connection list --no-such-flag ": nil,
	} {
		command := exec.Command(os.Args[0])
		command.Env = append(os.Environ(), asProgram+"=1", "COMP_LINE="+line)
		out, err := command.Output()
		if err != nil {
			t.Errorf("%q: %v", line, err)
		}
		got := strings.Fields(string(out))
		slices.Sort(got)
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", line, diff)
		}
	}
}

// bash takes the script, and then asks this program.
func TestCompletionScript(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if script := succeed(t, nil, "", "completion", shell); !strings.Contains(script, "connect-svc") || !strings.Contains(script, os.Args[0]) {
			t.Errorf("%s: %s", shell, script)
		}
	}
	script := succeed(t, nil, "", "completion", "bash")
	out, err := exec.Command("bash", "-c", script+"\ncomplete -p connect-svc").CombinedOutput()
	if err != nil || !strings.Contains(string(out), os.Args[0]) {
		t.Errorf("bash: %v: %s", err, out)
	}
	refuse(t, nil, statusUsage, []string{"bash"}, "completion", "csh")
	refuse(t, nil, statusUsage, []string{"<shell>"}, "completion")
}
