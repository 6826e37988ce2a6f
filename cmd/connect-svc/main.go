package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	kongcompletion "github.com/jotaen/kong-completion"
	"golang.org/x/term"

	"connect-svc/internal/app/settings"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/intake"
)

// Exit statuses of every command.
const (
	statusDone   = 0
	statusFailed = 1
	statusUsage  = 2 // wrong usage or a bad setting: trying again cannot help
)

func main() {
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
	parser, _, from := newParser(p)
	kongcompletion.Register(parser) // answers a shell that asks for completions, and exits
	command, err := parser.Parse(p.args)
	if err != nil {
		return p.fail(usageError{err})
	}
	if _, checks := command.Selected().Target.Addr().Interface().(*checkCommand); len(from.Problems) > 0 && !checks {
		return p.fail(usageError{from.Problems})
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
	if bad, found := errors.AsType[*intake.BadRows](err); found {
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
