package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// The program alone prints what --help prints: every command under a heading, on one line of 80 columns.
func TestHelpIsOneLineForEachCommand(t *testing.T) {
	t.Parallel()
	alone, help := succeed(t, nil, ""), succeed(t, nil, "", "--help")
	if alone != help {
		t.Errorf("alone:\n%s\nwith --help:\n%s", alone, help)
	}
	var headings []string
	for line := range strings.Lines(help) {
		if heading, found := strings.CutSuffix(line, ":\n"); found && !strings.HasPrefix(line, " ") {
			headings = append(headings, heading)
		}
	}
	if want := []string{"Flags", "Run", "Set up", "Partners", "Users and data", "Support"}; !slices.Equal(headings, want) {
		t.Errorf("headings %q, want %q", headings, want)
	}
	_ = kong.Visit(modelOf(t), func(visited kong.Visitable, next kong.Next) error {
		node, isNode := visited.(*kong.Node)
		if app, isApp := visited.(*kong.Application); isApp {
			node, isNode = app.Node, true
		}
		if isNode && len(node.Children) > 0 {
			help := succeed(t, nil, "", append(path(node), "--help")...)
			for _, child := range node.Children {
				name := strings.Join(path(child), " ")
				if !slices.ContainsFunc(strings.Split(help, "\n"), func(line string) bool {
					return strings.HasPrefix(line, "  "+name+" ") && strings.HasSuffix(line, "  "+child.Help)
				}) || !strings.HasSuffix(child.Help, ".") {
					t.Errorf("%s: %q is not one line of:\n%s", name, child.Help, help)
				}
			}
		}
		return next(nil)
	})
}

// A setting of a group, such as the database, is in the help of each of its commands.
func TestHelpListsTheSettingsOfTheGroup(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"client create", "client update", "user list", "webhook replay"} {
		if help := succeed(t, nil, "", append(strings.Fields(command), "--help")...); !strings.Contains(help, "CONNECT_DATABASE_URL") {
			t.Errorf("%s does not list CONNECT_DATABASE_URL:\n%s", command, help)
		}
	}
}
