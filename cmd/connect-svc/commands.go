package main

import (
	"fmt"

	"github.com/alecthomas/kong"

	"connect-svc/internal/app/settings"
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
	from := settings.New(p.environ)
	options := append(from.Options(),
		kong.Name("connect-svc"),
		kong.Description("Lets partner companies read users' walking and cycling activity, with consent."),
		kong.Writers(p.stdout, p.stderr),
		kong.Exit(func(code int) { panic(exit(code)) }),
		kong.WithHyphenPrefixedParameters(true), // --delta -500
		kong.PostBuild(describe),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
	)
	line := new(commands)
	parser := kong.Must(line, options...)
	from.Know(parser.Model)
	return parser, line, from
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
