package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"
	"golang.org/x/term"

	"connect-svc/internal/credential"
)

// Exit statuses of every command.
const (
	statusDone   = 0
	statusFailed = 1
	statusUsage  = 2 // wrong usage or a bad setting: running it again cannot help
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// program is what a command may use of the world.
type program struct {
	ctx            context.Context
	environ        []string
	stdin          io.Reader
	stdout, stderr io.Writer
	asks           bool // there is somebody at a terminal who can answer
}

// run carries out one command and returns the exit status. The end of ctx asks the command to stop.
func run(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) (status int) {
	return (&program{ctx, environ, stdin, stdout, stderr, isTerminal(stdin)}).run(args)
}

func isTerminal(stdin io.Reader) bool {
	file, isFile := stdin.(*os.File)
	return isFile && term.IsTerminal(int(file.Fd()))
}

func (p *program) run(args []string) (status int) {
	defer func() {
		if code, exits := recover().(exit); exits {
			status = int(code)
		}
	}()
	parser := newParser(p)
	kongcompletion.Register(parser) // ends here when a shell asks
	command, err := parser.Parse(args)
	if err != nil {
		return p.fail(usageError{err})
	}
	if err := command.Run(p); err != nil {
		return p.fail(err)
	}
	return statusDone
}

// exit is how --help and --version end the parser.
type exit int

// usageError is the caller's mistake: a command line or a setting that cannot be.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// fail prints err as one line without a credential, and tells the exit status.
func (p *program) fail(err error) int {
	line := strings.Join(strings.Fields(err.Error()), " ")
	if p.ctx.Err() != nil && errors.Is(err, context.Canceled) {
		line = "stopped"
	}
	fmt.Fprintln(p.stderr, "connect-svc:", credential.Redact(line))
	var usage usageError
	if errors.As(err, &usage) {
		return statusUsage
	}
	return statusFailed
}

// newParser builds the command line of p.
func newParser(p *program) *kong.Kong {
	return kong.Must(&commands{},
		kong.Name("connect-svc"),
		kong.Description("Lets partner companies read users' walking and cycling activity, with the users' consent."),
		kong.Vars{"version": version()},
		kong.Writers(p.stdout, p.stderr),
		kong.Exit(func(code int) { panic(exit(code)) }),
		kong.Resolvers(environment(p.environ)),
		kong.WithHyphenPrefixedParameters(true), // --delta -500
		kong.PostBuild(describe),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: false}),
	)
}
