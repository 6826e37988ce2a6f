package main

import (
	"fmt"
	"runtime/debug"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"
)

// commands is the command line. Each command carries an example, and each setting is marked `setting`: describe puts
// both into --help.
type commands struct {
	Version kong.VersionFlag `help:"Print the version and exit."`

	Serve      serveCommand       `cmd:"" help:"Run the service." example:"connect-svc serve --base-url https://connect.example.com --database-url postgres://connect@db/connect --keyset-file keyset.json --smtp-url smtp://mail:25 --mail-from no-reply@example.com"`
	Demo       demoCommand        `cmd:"" help:"Run everything on this machine, with sample data and an example partner." example:"connect-svc demo --ephemeral"`
	Sandbox    sandboxCommand     `cmd:"" help:"Run a service for a partner's tests: synthetic users, and a driver that consents, moves the clock and forces errors." example:"connect-svc sandbox --listen 127.0.0.1:0 --private-listen 127.0.0.1:0 --output json"`
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
	Completion completionCommand  `cmd:"" help:"Print the completion script of a shell." example:"connect-svc completion bash > ~/.local/share/bash-completion/completions/connect-svc"`
}

// environment answers for the flags that are settings, from variables of the same name. A variable that is set to
// nothing counts as not set.
func environment(environ []string) kong.Resolver {
	values := make(map[string]string, len(environ))
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		values[name] = value
	}
	return kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		if value := values[variable(flag.Name)]; value != "" && flag.Tag.Has("setting") {
			return value, nil
		}
		return nil, nil
	})
}

// variable is the environment variable of a setting: base-url is CONNECT_BASE_URL.
func variable(flag string) string {
	return "CONNECT_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// describe moves the settings of each command out of its list of flags into a table with one line for each, and adds
// the example.
func describe(k *kong.Kong) error {
	for _, command := range k.Model.Leaves(false) {
		var parts []string
		if table := settingsTable(command); table != "" {
			parts = append(parts, "Settings, each a flag or the environment variable after it:", table)
		}
		example := command.Tag.Get("example")
		if example == "" {
			return fmt.Errorf("%s has no example", command.FullPath())
		}
		parts = append(parts, "Example:", "    "+example)
		command.Detail = strings.Join(parts, "\n\n")
	}
	return nil
}

func settingsTable(command *kong.Node) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, flags := range command.AllFlags(true) {
		for _, flag := range flags {
			if !flag.Tag.Has("setting") {
				continue
			}
			value := "=" + flag.Default
			if flag.Default == "" {
				value = " " + flag.PlaceHolder
			}
			fmt.Fprintf(w, "    --%s%s\t%s\t%s\n", flag.Name, value, variable(flag.Name), flag.Help)
		}
	}
	for _, flags := range command.AllFlags(true) {
		for _, flag := range flags {
			flag.Hidden = flag.Hidden || flag.Tag.Has("setting")
		}
	}
	_ = w.Flush() // to memory
	return strings.TrimRight(text.String(), "\n")
}

// version is what the build knows: the module's version where it was installed by one, and the commit.
func version() string {
	info, known := debug.ReadBuildInfo()
	if !known {
		return "unknown"
	}
	text := info.Main.Version
	if text == "" || text == "(devel)" {
		text = "development"
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			text += " (" + setting.Value + ")"
		}
	}
	return text
}
