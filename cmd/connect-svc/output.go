package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
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

// listPage is how many rows a list asks for at a time.
const listPage = 1000

// paged are the rows of a list that is asked for page by page. next returns the page behind a position, whose zero value is before
// all rows: fewer than [listPage] rows are the last ones.
func paged[T, P any](next func(after P) ([]T, error), position func(T) P) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for after := *new(P); ; {
			page, err := next(after)
			if err != nil {
				yield(*new(T), err)
				return
			}
			for _, row := range page {
				if !yield(row, nil) {
					return
				}
			}
			if len(page) < listPage {
				return
			}
			after = position(page[len(page)-1])
		}
	}
}

// stream writes the rows of a list as they come, so that no list is too long for memory: as one JSON array of what show makes of
// them, or as a table whose columns are aligned for each page. An error in the middle leaves the beginning of the output, and
// fails the command.
func stream[T, Row any](
	o output, p *program, rows iter.Seq2[T, error], show func(T) Row, header string, text func(w io.Writer, row T),
) error {
	out := bufio.NewWriterSize(p.stdout, 1<<16)
	var write func(T) error
	var end func() error
	if o.Output == "json" {
		write, end = arrayTo(out, show)
	} else {
		write, end = tableTo(out, header, text)
	}
	for row, err := range rows {
		if err != nil {
			_ = out.Flush() // what was listed is good
			return err
		}
		if err := write(row); err != nil {
			return fmt.Errorf("print the list: %w", err)
		}
	}
	if err := errors.Join(end(), out.Flush()); err != nil {
		return fmt.Errorf("print the list: %w", err)
	}
	return nil
}

func tableTo[T any](out io.Writer, header string, text func(io.Writer, T)) (write func(T) error, end func() error) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, header) // which waits for the rows that it is aligned with
	rows := 0
	return func(row T) error {
		text(w, row)
		if rows++; rows%listPage == 0 {
			return w.Flush()
		}
		return nil
	}, w.Flush
}

// arrayTo writes what a json.Encoder with an indent makes of the whole array.
func arrayTo[T, Row any](out *bufio.Writer, show func(T) Row) (write func(T) error, end func() error) {
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("  ", "  ")
	before, last := "[\n  ", "[]\n"
	return func(row T) error {
			encoded.Reset()
			if err := encoder.Encode(show(row)); err != nil {
				return err
			}
			_, _ = out.WriteString(before) // the next one tells
			before, last = ",\n  ", "\n]\n"
			_, err := out.Write(bytes.TrimSuffix(encoded.Bytes(), []byte("\n")))
			return err
		}, func() error {
			_, err := out.WriteString(last)
			return err
		}
}
