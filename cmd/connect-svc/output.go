package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// output is the flag of every command that prints a result.
type output struct {
	Output string `help:"Output format: text for people, json for programs." enum:"text,json" default:"text" placeholder:"text|json"`
}

// say is print for a result that people are told in words.
func (o output) say(p *program, value any, format string, args ...any) error {
	return o.print(p, value, func(w io.Writer) { fmt.Fprintf(w, format+"\n", args...) })
}

// print writes value as one JSON value, or what text makes of it as aligned columns: cells are separated by tabs.
func (o output) print(p *program, value any, text func(w io.Writer)) error {
	if o.Output == "json" {
		encoder := json.NewEncoder(p.stdout)
		encoder.SetEscapeHTML(false) // URLs stay readable
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(value); err != nil {
			return fmt.Errorf("print the result: %w", err)
		}
		return nil
	}
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	text(w)
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}
