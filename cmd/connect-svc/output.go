package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"text/tabwriter"
	"unicode"

	"connect-svc/internal/foundation/postgres"
)

// output is the flag of every command that prints a result.
type output struct {
	Output string `help:"Output format: text for people, json for programs." enum:"text,json" default:"text" placeholder:"text|json"`
}

// say is print for a result that people are told in words.
func (o output) say(p *program, value any, format string, args ...any) error {
	return o.print(p, value, func(w io.Writer) { fmt.Fprintf(w, format+"\n", args...) })
}

// print writes value as one JSON value, or what text makes of it as aligned columns: cells are separated by tabs. Its error says that the
// command is done.
func (o output) print(p *program, value any, text func(w io.Writer)) (err error) {
	defer func() { err = postgres.Wrap("done, but the result cannot be written", err) }()
	if o.Output == "json" {
		encoder := json.NewEncoder(p.stdout)
		encoder.SetEscapeHTML(false) // URLs stay readable
		encoder.SetIndent("", "  ")
		return encoder.Encode(value)
	}
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	text(w)
	return w.Flush()
}

// show prints an object: for people its named fields, and notes below them.
func (o output) show(p *program, value any, names string, notes ...string) error {
	return o.print(p, value, func(w io.Writer) {
		fields(w, value, names)
		for _, note := range notes {
			fmt.Fprintln(w, note)
		}
	})
}

// fields writes a line for each named field that has a value. A dot leads into an object.
func fields(w io.Writer, value any, names string) {
	text, _ := json.Marshal(value) // it was JSON
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // a float64 is 1e+06 from a million on
	var object any
	_ = decoder.Decode(&object)
	for _, name := range strings.Fields(names) {
		if text := cell(at(object, name)); text != "-" && text != "" {
			fmt.Fprintf(w, "%s\t%s\n", strings.NewReplacer("_", " ", ".", " ").Replace(name), text)
		}
	}
}

// heading writes the names of columns, if there are rows below them.
func heading(w io.Writer, rows int, columns string) {
	if rows > 0 {
		fmt.Fprintln(w, "\n"+columns)
	}
}

// at is the value of a field, nil if there is none.
func at(value any, name string) any {
	for part := range strings.SplitSeq(name, ".") {
		object, _ := value.(map[string]any)
		value = object[part]
	}
	return value
}

// cell is a JSON value for people, on one line.
func cell(value any) string {
	switch value := value.(type) {
	case nil:
		return "-"
	case string:
		return strings.ReplaceAll(printable(value), "\n", " ")
	case []any:
		return strings.Join(postgres.Map(value, cell), " ")
	case map[string]any:
		var text strings.Builder
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		_ = encoder.Encode(value) // it was JSON
		return printable(strings.TrimSpace(text.String()))
	}
	return fmt.Sprint(value)
}

// printable is text from somebody else without control characters, which a terminal would obey.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}

// list writes rows as they come, so that no list is too long for memory: as one JSON array, or as a table of the named fields
// whose columns are aligned for each page. An error in the middle leaves the beginning of the output, and fails the command.
func (o output) list(p *program, rows iter.Seq2[any, error], columns string) error {
	out := bufio.NewWriterSize(p.stdout, 1<<16)
	var write func(any) error
	var end func() error
	if o.Output == "json" {
		write, end = arrayTo(out)
	} else {
		write, end = tableTo(out, strings.Fields(columns))
	}
	for row, err := range rows {
		if err != nil {
			_ = out.Flush() // what was listed is good
			return err
		}
		if err := write(row); err != nil {
			return err
		}
	}
	return errors.Join(end(), out.Flush())
}

func tableTo(out io.Writer, columns []string) (write func(any) error, end func() error) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(cell func(column string) string) {
		fmt.Fprintln(w, strings.Join(postgres.Map(columns, cell), "\t"))
	}
	// The header waits for the rows that it is aligned with.
	line(func(column string) string {
		return strings.ToUpper(strings.ReplaceAll(column[strings.LastIndex(column, ".")+1:], "_", " "))
	})
	written := 0
	return func(row any) error {
		line(func(column string) string { return cell(at(row, column)) })
		if written++; written%pageRows == 0 {
			return w.Flush()
		}
		return nil
	}, w.Flush
}

// arrayTo writes what a json.Encoder with an indent makes of the whole array.
func arrayTo(out *bufio.Writer) (write func(any) error, end func() error) {
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("  ", "  ")
	before, last := "[\n  ", "[]\n"
	return func(row any) error {
			encoded.Reset()
			if err := encoder.Encode(row); err != nil {
				return err
			}
			_, _ = out.WriteString(before) // a bufio.Writer keeps its first error
			before, last = ",\n  ", "\n]\n"
			_, err := out.Write(bytes.TrimSuffix(encoded.Bytes(), []byte("\n")))
			return err
		}, func() error {
			_, err := out.WriteString(last)
			return err
		}
}

// confirmation is the flag of every command that destroys something.
type confirmation struct {
	Yes bool `help:"Do not ask for confirmation."`
}

// confirm asks whether to do what, which completes the sentence "This will …". It returns nil with --yes, and if
// somebody at a terminal agrees. Without a terminal there is nobody to ask: that is wrong usage.
func (c confirmation) confirm(p *program, question string) error {
	if c.Yes {
		return nil
	}
	if !p.asks {
		return usagef("this will %s: add --yes to do it without a terminal", question)
	}
	fmt.Fprintf(p.stderr, "This will %s.\nType yes to continue: ", question)
	input := interruptible(p.ctx, p.stdin)
	defer func() { _ = input.Close() }()
	answer, err := bufio.NewReader(input).ReadString('\n')
	if p.ctx.Err() != nil {
		return p.ctx.Err()
	}
	if err != nil || strings.TrimSpace(answer) != "yes" {
		return errors.New("not confirmed: nothing was done")
	}
	return nil
}

// confirmAtTerminal is confirm for a command that scripts run without --yes: nobody is asked without a terminal.
func (c confirmation) confirmAtTerminal(p *program, question string) error {
	if !p.asks {
		return nil
	}
	return c.confirm(p, question)
}

// count is "1 connection", "2 connections".
func count(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
