package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"
)

// commands is the command line. Each command carries an example, which describe puts into its --help.
type commands struct {
	ShowVersion kong.VersionFlag `name:"version" help:"Print the version and exit."`

	Serve      serveCommand       `cmd:"" help:"Run the service." example:"connect-svc serve --base-url https://connect.example.com --database-url postgres://connect@db/connect --keyset-file keyset.json --smtp-url smtp://mail:25 --mail-from no-reply@example.com"`
	Demo       demoCommand        `cmd:"" help:"Run everything on this machine, with sample data and an example partner." example:"connect-svc demo --ephemeral"`
	Sandbox    sandboxCommand     `cmd:"" help:"Run a service for a partner's tests: synthetic users, and a driver that consents, moves the clock and forces errors." example:"connect-svc sandbox --listen 127.0.0.1:0 --private-listen 127.0.0.1:0 --output json"`
	Brand      brandCommands      `cmd:"" help:"See how pages and emails look to users."`
	Migrate    migrateCommands    `cmd:"" help:"Bring the database's schema forward or back."`
	Keys       keysCommands       `cmd:"" help:"Make and rotate the keyset that seals credentials."`
	Client     clientCommands     `cmd:"" help:"Register partner companies."`
	User       userCommands       `cmd:"" help:"Create and look at users."`
	Connection connectionCommands `cmd:"" help:"Look at connections and end them."`
	Audit      auditCommands      `cmd:"" help:"Look at what happened to clients, users and connections."`
	Webhook    webhookCommands    `cmd:"" help:"Look at the events sent to clients, and send them again."`
	Import     importCommands     `cmd:"" help:"Take in recorded activity from CSV."`
	Adjust     adjustCommands     `cmd:"" help:"Correct recorded activity."`
	Usage      usageCommand       `cmd:"" help:"What a client asked: requests, refusals, times, budget, connections." example:"connect-svc usage --client 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11 --since 168h"`
	SampleData sampleDataCommand  `cmd:"" help:"Give a user plausible synthetic activity." example:"connect-svc sample-data --user 6f1c2c9e-5a53-4a0e-9a39-3d2a5c1f7b10 --days 365 --seed 7"`
	Version    versionCommand     `cmd:"" help:"Print the version of the program and of the partner API." example:"connect-svc version --output json"`
	Completion completionCommand  `cmd:"" help:"Print the completion script of a shell." example:"connect-svc completion bash > ~/.local/share/bash-completion/completions/connect-svc"`
}

// newParser builds the command line of p.
func newParser(p *program) *kong.Kong {
	options := []kong.Option{
		kong.Name("connect-svc"),
		kong.Description("Lets partner companies read users' walking and cycling activity, with the users' consent."),
		kong.Vars{"version": built().String()},
		kong.Writers(p.stdout, p.stderr),
		kong.Exit(func(code int) { panic(exit(code)) }),
		kong.Resolvers(environment(p.environ)),
		kong.WithHyphenPrefixedParameters(true), // --delta -500
		kong.PostBuild(describe),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	}
	for name, mapper := range settingTypes {
		options = append(options, kong.NamedMapper(name, mapper))
	}
	return kong.Must(&commands{}, options...)
}

// describe moves the settings of each command out of its list of flags into a table with one line for each, and adds
// the example.
func describe(k *kong.Kong) error {
	for _, command := range k.Model.Leaves(false) {
		if settings := settingsTable(command); settings != "" {
			command.Detail = "Settings, each a flag or the environment variable after it:\n\n" + settings + "\n"
		}
		example := command.Tag.Get("example")
		if example == "" {
			return fmt.Errorf("%s has no example", command.FullPath())
		}
		command.Detail += "Example:\n\n    " + example
	}
	return nil
}

func settingsTable(command *kong.Node) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	var settings []*kong.Flag
	for _, flags := range command.AllFlags(true) {
		for _, flag := range flags {
			if flag.Tag.Has("setting") {
				settings = append(settings, flag)
			}
		}
	}
	for _, flag := range settings {
		flag.Hidden = true // in the list of flags
		value := "=" + flag.Default
		if !flag.HasDefault {
			value = " " + flag.PlaceHolder
		}
		fmt.Fprintf(w, "    --%s%s\t%s\t%s\n", flag.Name, value, variable(flag.Name), flag.Help)
	}
	_ = w.Flush() // to memory
	return text.String()
}
