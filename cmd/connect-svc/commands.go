package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"connect-svc/internal/app/settings"
	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"
	"github.com/muesli/roff"
	openapi_types "github.com/oapi-codegen/runtime/types"
)

// commands is the command line. Its groups are the headings of --help. Each command has a help of one line and an example,
// and where that line is not enough a detail; describe puts them into its --help.
type commands struct {
	Config      string      `type:"settings file" placeholder:"FILE" help:"Settings, a line CONNECT_NAME=value for each; the environment and flags override them."`
	ShowVersion versionFlag `name:"version" help:"Print the version and exit."`

	Serve         serveCommand          `cmd:"" group:"Run:" help:"Run the service." example:"connect-svc serve --base-url https://connect.example.com --database-url postgres://connect@db/connect --keyset-file keyset.json --smtp-url smtp://mail:25 --mail-from no-reply@example.com"`
	Check         checkCommand          `cmd:"" group:"Run:" help:"Check every setting and all that the service needs." detail:"Exit status: 0 when the service can run with these settings, 1 when something it needs is wrong, 2 when a setting is. It changes nothing, and may run beside the service." example:"connect-svc check --config /etc/connect-svc/settings"`
	Demo          demoCommand           `cmd:"" group:"Run:" help:"Run everything locally, with sample data and an example partner." example:"connect-svc demo --ephemeral"`
	Sandbox       sandboxCommand        `cmd:"" group:"Run:" help:"Run a throwaway service for a partner's automated tests." detail:"It has synthetic users, and a driver that consents on their behalf, moves the clock and forces errors." example:"connect-svc sandbox --listen 127.0.0.1:0 --private-listen 127.0.0.1:0 --output json"`
	Migrate       migrateCommands       `cmd:"" group:"Set up:" help:"Upgrade or roll back the database schema."`
	Brand         brandCommands         `cmd:"" group:"Set up:" help:"Preview the pages and emails that users see."`
	Texts         textsCommands         `cmd:"" group:"Set up:" help:"Print the texts of the pages and emails, to translate them."`
	Keys          keysCommands          `cmd:"" group:"Set up:" help:"Create and rotate the keyset that seals credentials."`
	OperatorToken operatorTokenCommands `cmd:"" group:"Set up:" help:"Create tokens of the operator API."`
	Restore       restoreCommands       `cmd:"" group:"Set up:" help:"Reconcile a database after a restore or a failover."`
	Client        clientCommands        `cmd:"" group:"Partners:" help:"Register partners; manage their secrets and webhooks."`
	User          userCommands          `cmd:"" group:"Users and data:" help:"Create, list, change and delete users."`
	Connection    connectionCommands    `cmd:"" group:"Users and data:" help:"List and end users' connections with partners."`
	Audit         auditCommands         `cmd:"" group:"Support:" help:"Show who changed clients, users and connections."`
	Webhook       webhookCommands       `cmd:"" group:"Partners:" help:"Inspect, resend, test and verify webhook deliveries."`
	Import        importCommands        `cmd:"" group:"Users and data:" help:"Import users and recorded activity from CSV files."`
	Adjust        adjustCommands        `cmd:"" group:"Users and data:" help:"Correct recorded activity."`
	Remove        removeCommands        `cmd:"" group:"Users and data:" help:"Remove recorded activity and corrections."`
	Find          findCommand           `cmd:"" group:"Support:" help:"Find what an address, a name or an id belongs to." example:"connect-svc find ada@example.com"`
	Usage         usageCommand          `cmd:"" group:"Support:" help:"Show the requests, refusals and latency of a client, or of all." example:"connect-svc usage --client 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11 --since 168h"`
	Report        reportCommand         `cmd:"" group:"Support:" help:"Show what happened day by day, to a partner or in all." example:"connect-svc report --since 30d"`
	SampleData    sampleDataCommand     `cmd:"" unhurried:"" group:"Users and data:" help:"Generate plausible activity for a user." example:"connect-svc sample-data --user 6f1c2c9e-5a53-4a0e-9a39-3d2a5c1f7b10 --days 365 --seed 7"`
	Version       versionCommand        `cmd:"" group:"Support:" help:"Print the versions of the program and of the partner API." example:"connect-svc version --output json"`
	Man           manCommand            `cmd:"" group:"Set up:" help:"Print the manual page." example:"connect-svc man > ~/.local/share/man/man1/connect-svc.1"`
	Completion    completionCommand     `cmd:"" group:"Set up:" help:"Print a shell completion script." example:"connect-svc completion bash > ~/.local/share/bash-completion/completions/connect-svc"`
}

// newParser builds the command line of p, with what it fills in and where its settings come from.
func newParser(p *program) (*kong.Kong, *commands, *settings.Source) {
	source := settings.New(p.environ)
	options := append(source.Options(),
		kong.Name("connect-svc"),
		kong.Description("Lets partner companies read users' walking and cycling activity, with consent."),
		kong.Writers(p.stdout, p.stderr),
		kong.Exit(func(code int) { panic(exit(code)) }),
		kong.WithHyphenPrefixedParameters(true), // --delta -500
		kong.PostBuild(describe),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
	)
	line := new(commands)
	return kong.Must(line, options...), line, source
}

// describe moves the settings of each command out of its list of flags into a table with one line for each, and adds
// the detail and the example.
func describe(k *kong.Kong) error {
	for _, group := range k.Model.Children {
		for _, command := range group.Children {
			command.Group = &kong.Group{Key: "Commands:", Title: "Commands:"} // not its group's heading once more
		}
	}
	for _, command := range k.Model.Leaves(false) {
		if detail := command.Tag.Get("detail"); detail != "" {
			command.Detail = detail + "\n\n"
		}
		if table := settings.Table(command); table != "" {
			command.Detail += "Settings, each as a flag or as the environment variable after it:\n\n" + table + "\n"
		}
		example := command.Tag.Get("example")
		if example == "" {
			return fmt.Errorf("%s has no example", command.FullPath())
		}
		command.Detail += "Example:\n\n    " + example
	}
	return nil
}

// date is a flag in the form YYYY-MM-DD: midnight in UTC.
type date struct{ openapi_types.Date }

// UnmarshalText implements [encoding.TextUnmarshaler], as kong wants it.
func (d *date) UnmarshalText(text []byte) (err error) {
	if d.Time, err = time.Parse(time.DateOnly, string(text)); err != nil || d.Year() < 1900 {
		return errors.New("must be a date in the form YYYY-MM-DD, from 1900-01-01 to 9999-12-31")
	}
	return nil
}

// param is the date as an optional field, nil if it was not given.
func (d *date) param() *openapi_types.Date {
	if d == nil {
		return nil
	}
	return &d.Date
}

// param is a text as an optional parameter or field, nil if it is empty.
func param(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// instant is a flag that is a day, which stands for its midnight in UTC, or a time of RFC 3339.
type instant struct{ time.Time }

func (i *instant) UnmarshalText(text []byte) error {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, string(text)); err == nil {
			i.Time = at
			return nil
		}
	}
	return errors.New("must be YYYY-MM-DD or a time such as 2026-01-31T08:00:00Z")
}

// param is the instant as a parameter of the operator API, nil if it was not given.
func (i instant) param() *string {
	if i.IsZero() {
		return nil
	}
	return new(i.UTC().Format("2006-01-02T15:04:05.999999Z"))
}

// since is an instant, or a duration back from now.
type since struct{ instant }

func (s *since) UnmarshalText(text []byte) error {
	if days, ok := strings.CutSuffix(string(text), "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 {
			s.Time = time.Now().AddDate(0, 0, -n)
			return nil
		}
	}
	if back, err := time.ParseDuration(string(text)); err == nil && back > 0 {
		s.Time = time.Now().Add(-back)
		return nil
	}
	if s.instant.UnmarshalText(text) != nil {
		return errors.New("must be a duration such as 24h or 30d, a day such as 2026-11-20 or a time such as 2026-11-20T10:00:00Z")
	}
	return nil
}

// manCommand prints the manual page, which packages install. It is made from the command line itself.
type manCommand struct{}

func (c manCommand) Run(p *program, command *kong.Context) error {
	page := roff.NewDocument()
	page.Heading(1, command.Model.Name, "connect-svc "+built().Version, built().At)
	section := func(title, text string) {
		page.Section(title)
		page.Text(text)
	}
	section("Name", command.Model.Name+" - "+strings.ToLower(command.Model.Help[:1])+strings.TrimSuffix(command.Model.Help[1:], "."))
	section("Synopsis", command.Model.Name+" <command> [flags]")
	section("Description", "Every command has --help with an example. A setting is a flag or the environment variable after it; the flag wins.")
	page.Section("Commands")
	// A term on a line of its own, and what it means below it.
	define := func(term, text string) {
		page.TaggedParagraph(4)
		page.TextBold(term)
		page.EndSection() // ends the line
		page.Text(text)
	}
	for _, leaf := range command.Model.Leaves(true) {
		define(command.Model.Name+" "+leaf.Path(), leaf.Help)
		page.Indent(4)
		for node := leaf; node.Parent != nil; node = node.Parent { // a group has settings for all of its commands
			for _, flag := range node.Flags {
				term := flag.String()
				if flag.Tag.Has("setting") {
					term += ", " + settings.Variable(flag.Name)
				}
				define(term, flag.Help)
			}
		}
		page.IndentEnd()
	}
	section("Exit status", "0: done. 1: failed. 2: wrong usage, or a setting that cannot be used. Errors are one line on standard error.")
	_, err := fmt.Fprintln(p.stdout, page)
	return err
}

// completionCommand prints a script that makes a shell ask this program for completions. The shell runs the program with
// the command line so far in COMP_LINE, which program.run looks for.
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: bash, zsh or fish."`
}

func (c completionCommand) Run(ctx *kong.Context) error {
	return (&kongcompletion.Completion{Shell: c.Shell, Code: true}).Run(ctx)
}
