// Command connect-svc is the whole service: the public and the private listener, background work, the operator's
// command line and the demo.
//
// main calls run, which gets everything from outside as arguments, so that tests run commands in process. A command has no
// rules: it checks how it was called, calls an operation of api/operator.yaml in this process (api.go), and prints the answer
// (output.go). These commands are made from the x-cli of the operations (acts.gen.go, by tools/commands); beside them stand, in a file for
// each group, what checks several flags together and what writes more than a table. Imports, migrations, keys and all else that is not
// an operation of that document call a domain, in a file each. A command's flags are the fields of its type, and a setting is a flag with the tag `setting`
// (package settings). The parameters of its Run are what it needs: the program, its group, and the operator API, for which kong
// connects to the database before.
//
// # Invariants
//
//   - A command that is called wrongly, or with a bad setting, ends with status 2. A command that fails ends with status 1. Both
//     say why in one line on standard error, without credentials (TestWrongUsage, TestAllBadSettingsAreTold,
//     TestWebhookVerifyNeverPrintsTheSecret).
//   - With --output json, standard output is one JSON value and nothing else (TestEmptyListsAreArrays, TestClient).
//   - The commands on the operator API say, ask and print what testdata/acts.golden has (TestActs).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"connect-svc/internal/app"
	"connect-svc/internal/app/settings"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/refusal"
	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"
	"golang.org/x/term"
)

// Exit statuses of every command.
const (
	statusDone   = 0
	statusFailed = 1
	statusUsage  = 2 // wrong usage or a bad setting: trying again cannot help
)

// hangups ask serve to read its settings again.
var hangups = make(chan os.Signal, 1)

func main() {
	if slices.Contains(os.Args, "serve") { // also while it starts: a hangup would end it
		signal.Notify(hangups, syscall.SIGHUP)
	}
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		signal.Stop(signals) // before the command notices the first: a second one ends the program at once
		cancel()
	}()
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// program is what a command gets from outside.
type program struct {
	ctx            context.Context
	args, environ  []string
	stdin          io.Reader
	stdout, stderr io.Writer
	asks           bool     // standard input is a terminal, where somebody can answer
	atEnd          []func() // called when the command is done, the last one first
}

// run carries out one command and returns the exit status. The end of ctx asks the command to stop.
func run(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) (status int) {
	return (&program{ctx, args, environ, stdin, stdout, stderr, isTerminal(stdin), nil}).run()
}

func isTerminal(stream any) bool {
	file, isFile := stream.(*os.File)
	return isFile && term.IsTerminal(int(file.Fd()))
}

func (p *program) run() (status int) {
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case exit:
			status = int(cause)
		default:
			panic(cause)
		}
	}()
	if len(p.args) == 0 {
		p.args = []string{"--help"}
	}
	// The operator API would get other bytes as U+FFFD, which could be another id.
	if i := slices.IndexFunc(p.args, func(arg string) bool { return !utf8.ValidString(arg) }); i >= 0 {
		return p.fail(usageError{fmt.Errorf("argument %d is not UTF-8", i+1)})
	}
	parser, _, source := newParser(p)
	kongcompletion.Register(parser) // answers a shell that asks for completions, and exits
	command, err := parser.Parse(p.args)
	if err != nil {
		return p.fail(usageError{err})
	}
	if _, checks := command.Selected().Target.Addr().Interface().(*checkCommand); len(source.Problems) > 0 && !checks {
		return p.fail(usageError{source.Problems})
	}
	defer func() {
		for _, end := range slices.Backward(p.atEnd) {
			end()
		}
	}()
	if err := command.Run(p); err != nil {
		return p.fail(err)
	}
	return statusDone
}

// exit is how --help and --version end the parser.
type exit int

// usageError is a command line that cannot be carried out.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// fail prints err as one line without a credential, or each of its problems as one, and returns the exit status. Bad rows have
// a line each before it.
func (p *program) fail(err error) int {
	status := statusFailed
	if bad, ok := errors.AsType[*refusal.Fields](err); ok {
		for _, row := range bad.Named {
			fmt.Fprintln(p.stderr, "connect-svc:", credential.Redact(row.Error()))
		}
		err = fmt.Errorf("%w; nothing was imported", bad)
	}
	if _, isUsage := errors.AsType[usageError](err); isUsage {
		status = statusUsage
	}
	if p.ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errors.New("stopped")
	}
	lines, several := errors.AsType[settings.Problems](err)
	if !several {
		lines = settings.Problems{err}
	}
	for _, line := range lines {
		fmt.Fprintln(p.stderr, "connect-svc:", oneLine(line))
	}
	return status
}

// oneLine is err as one line without a credential.
func oneLine(err error) string {
	return credential.Redact(strings.Join(strings.Fields(err.Error()), " "))
}

// version and commit are those of the sources. `make build` sets both, as .ci/version prints them.
var version, commit string

// built is what this program was built from.
func built() app.Build { return app.BuildOf(version, commit) }

// versionFlag is [kong.VersionFlag] without its variable: kong looks for variables in the text of that for each flag anew.
type versionFlag bool

func (versionFlag) BeforeReset(line *kong.Kong) error {
	_, err := fmt.Fprintln(line.Stdout, built())
	line.Exit(0)
	return err
}

type versionCommand struct{ output }

type versionJSON struct {
	app.Build
	ContractVersion string `json:"contract_version"`
	GoVersion       string `json:"go_version"`
}

func (c versionCommand) Run(p *program) error {
	value := versionJSON{built(), app.ContractVersion(), runtime.Version()}
	return c.say(p, value, "connect-svc %s, partner API %s, %s", value.Build, value.ContractVersion, value.GoVersion)
}
