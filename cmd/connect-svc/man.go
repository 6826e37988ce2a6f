package main

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/muesli/roff"
)

// manCommand prints the manual page, which packages install. It is made from the command line itself.
type manCommand struct{}

func (c manCommand) Run(p *program, command *kong.Context) error {
	page := roff.NewDocument()
	page.Heading(1, command.Model.Name, "connect-svc "+built().Version, built().at)
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
					term += ", " + variable(flag.Name)
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
