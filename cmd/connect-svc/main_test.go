package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"connect-svc/internal/testing/pgtest"
)

// asProgram makes the test binary behave as the program, for the tests that need a process to send signals to.
const asProgram = "CONNECT_SVC_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	pgtest.Main(m)
}

// outcome of one command.
type outcome struct {
	status         int
	stdout, stderr string
}

// call carries out one command in process. Its environment holds nothing but env.
func call(t *testing.T, env []string, stdin string, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status := run(t.Context(), args, env, strings.NewReader(stdin), &stdout, &stderr)
	return outcome{status, stdout.String(), stderr.String()}
}

// succeed is call for a command that must be done without a word on standard error.
func succeed(t *testing.T, env []string, stdin string, args ...string) string {
	t.Helper()
	got := call(t, env, stdin, args...)
	if got.status != statusDone || got.stderr != "" {
		t.Fatalf("connect-svc %s: status %d, stderr %q", strings.Join(args, " "), got.status, got.stderr)
	}
	return got.stdout
}

// succeedJSON is succeed with --output json: standard output must be one JSON value, which is decoded as a T.
func succeedJSON[T any](t *testing.T, env []string, stdin string, args ...string) (value T) {
	t.Helper()
	text := succeed(t, env, stdin, append(args, "--output", "json")...)
	decoder := json.NewDecoder(strings.NewReader(text))
	if err := decoder.Decode(&value); err != nil {
		t.Fatalf("connect-svc %s: %v in %s", strings.Join(args, " "), err, text)
	}
	if decoder.More() {
		t.Fatalf("connect-svc %s: more than one JSON value: %s", strings.Join(args, " "), text)
	}
	return value
}

// refuse is call for a command that must fail with a status and one line on standard error that holds each of words.
func refuse(t *testing.T, env []string, status int, words []string, args ...string) {
	t.Helper()
	got := call(t, env, "", args...)
	checkRefusal(t, got, status, words)
}

func checkRefusal(t *testing.T, got outcome, status int, words []string) {
	t.Helper()
	if got.status != status {
		t.Errorf("status %d, want %d", got.status, status)
	}
	if got.stdout != "" {
		t.Errorf("stdout %q, want nothing", got.stdout)
	}
	if strings.Count(got.stderr, "\n") != 1 || !strings.HasSuffix(got.stderr, "\n") {
		t.Errorf("stderr is not one line: %q", got.stderr)
	}
	for _, word := range words {
		if !strings.Contains(got.stderr, word) {
			t.Errorf("stderr %q does not say %q", got.stderr, word)
		}
	}
}

// Decisions section 1: every command has --help with an example, on standard output, with status 0.
func TestEveryCommandHasHelpWithAnExample(t *testing.T) {
	t.Parallel()
	leaves := modelOf(t).Leaves(false)
	if len(leaves) == 0 {
		t.Fatal("no commands")
	}
	for _, leaf := range leaves {
		words := path(leaf)
		t.Run(strings.Join(words, " "), func(t *testing.T) {
			t.Parallel()
			help := succeed(t, nil, "", append(words, "--help")...)
			if !strings.Contains(help, "Example:") || !strings.Contains(help, "    connect-svc "+strings.Join(words, " ")) {
				t.Errorf("no example of the command itself in:\n%s", help)
			}
		})
	}
}

func path(node *kong.Node) []string {
	if node.Parent == nil {
		return nil
	}
	return append(path(node.Parent), node.Name)
}

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"no command":       {"client"},
		"unknown command":  {"fly"},
		"unknown flag":     {"keys", "list", "--colour", "x"},
		"missing argument": {"keys", "list"},
		"missing flag":     {"keys", "create"},
		"output form":      {"keys", "list", "x", "--output", "yaml"},
		"extra argument":   {"migrate", "up", "now"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refuse(t, nil, statusUsage, []string{"connect-svc: "}, args...)
		})
	}
}

// modelOf describes the command line.
func modelOf(t *testing.T) *kong.Application {
	t.Helper()
	parser, _, _ := newParser(&program{ctx: t.Context()})
	return parser.Model
}
