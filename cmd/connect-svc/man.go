package main

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"
	"github.com/muesli/roff"

	"connect-svc/internal/app/settings"
)

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
