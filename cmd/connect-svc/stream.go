package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"text/tabwriter"
)

// listPage is how many rows a list asks for at a time.
const listPage = 1000

// paged are the rows of a list that is asked for page by page. next returns the page behind the one that it returned before:
// fewer than [listPage] rows are the last ones.
func paged[T any](next func() ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for {
			page, err := next()
			if err != nil {
				var none T
				yield(none, err)
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
		}
	}
}

// mapped are the rows as the list shows them.
func mapped[From, To any](rows iter.Seq2[From, error], show func(From) To) iter.Seq2[To, error] {
	return func(yield func(To, error) bool) {
		for row, err := range rows {
			var shown To
			if err == nil {
				shown = show(row)
			}
			if !yield(shown, err) {
				return
			}
		}
	}
}

// stream writes the rows of a list as they come, so that no list is too long for memory: as one JSON array, or as a table whose
// columns are aligned for each page. An error in the middle leaves the beginning of the output, and fails the command.
func stream[T any](o output, p *program, rows iter.Seq2[T, error], header string, text func(w io.Writer, row T)) error {
	out := bufio.NewWriterSize(p.stdout, 1<<16)
	list := rowWriter[T](&tableWriter[T]{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0), text, 0})
	begin := header + "\n"
	if o.Output == "json" {
		list, begin = newArrayWriter[T](out), "["
	}
	begun := false
	start := func() error {
		if begun {
			return nil
		}
		begun = true
		return list.begin(begin)
	}
	for row, err := range rows {
		if err != nil {
			_ = out.Flush() // what was listed is good
			return err
		}
		if err := start(); err != nil {
			return fmt.Errorf("print the list: %w", err)
		}
		if err := list.write(row); err != nil {
			return fmt.Errorf("print the list: %w", err)
		}
	}
	for _, finish := range []func() error{start, list.end, out.Flush} {
		if err := finish(); err != nil {
			return fmt.Errorf("print the list: %w", err)
		}
	}
	return nil
}

// rowWriter writes a list in one format.
type rowWriter[T any] interface {
	begin(text string) error
	write(row T) error
	end() error
}

type tableWriter[T any] struct {
	*tabwriter.Writer
	text func(io.Writer, T)
	rows int
}

func (w *tableWriter[T]) begin(header string) error {
	_, err := io.WriteString(w, header)
	return err
}

func (w *tableWriter[T]) write(row T) error {
	w.text(w, row)
	if w.rows++; w.rows%listPage == 0 {
		return w.Flush()
	}
	return nil
}

func (w *tableWriter[T]) end() error { return w.Flush() }

// arrayWriter writes what a json.Encoder with an indent makes of the whole array.
type arrayWriter[T any] struct {
	*bufio.Writer
	row     bytes.Buffer
	encoder *json.Encoder
	rows    int
}

func newArrayWriter[T any](out *bufio.Writer) *arrayWriter[T] {
	w := &arrayWriter[T]{Writer: out}
	w.encoder = json.NewEncoder(&w.row)
	w.encoder.SetEscapeHTML(false)
	w.encoder.SetIndent("  ", "  ")
	return w
}

func (w *arrayWriter[T]) begin(text string) error {
	_, err := w.WriteString(text)
	return err
}

func (w *arrayWriter[T]) write(row T) error {
	w.row.Reset()
	if err := w.encoder.Encode(row); err != nil {
		return err
	}
	between := ",\n  "
	if w.rows++; w.rows == 1 {
		between = "\n  "
	}
	_, _ = w.WriteString(between) // the next one tells
	_, err := w.Write(bytes.TrimSuffix(w.row.Bytes(), []byte("\n")))
	return err
}

func (w *arrayWriter[T]) end() error {
	text := "]\n"
	if w.rows > 0 {
		text = "\n]\n"
	}
	_, err := w.WriteString(text)
	return err
}
