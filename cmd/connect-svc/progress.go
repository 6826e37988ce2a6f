package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"connect-svc/internal/intake"
)

// input opens a file to import, or standard input for "-". It returns its size in bytes too, or -1 if that is unknown.
func (p *program) input(file string) (io.ReadCloser, int64, error) {
	if file == "-" {
		return interruptible(p.ctx, p.stdin), -1, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return f, -1, nil
	}
	return f, info.Size(), nil
}

// interruptible stops reading when ctx ends, even from a source that sends nothing: a terminal, or a pipe that stalls.
func interruptible(ctx context.Context, source io.Reader) io.ReadCloser {
	reader, writer := io.Pipe()
	context.AfterFunc(ctx, func() { writer.CloseWithError(ctx.Err()) })
	go func() {
		_, err := io.Copy(writer, source)
		writer.CloseWithError(err)
	}()
	return reader
}

// progress shows how far an import of size bytes is, with its rate and the time that remains, if standard error is a
// terminal: first reading its bytes, then storing its rows. finish removes the display.
func (p *program) progress(size int64) (show func(intake.Progress), finish func()) {
	screen, isFile := p.stderr.(*os.File)
	if !isFile || !term.IsTerminal(int(screen.Fd())) {
		return nil, func() {}
	}
	return showProgress(screen, size)
}

// A display that fails does not stop the import.
func showProgress(screen io.Writer, size int64) (show func(intake.Progress), finish func()) {
	newBar := func(size int64, options ...progressbar.Option) *progressbar.ProgressBar {
		return progressbar.NewOptions64(size, append(options,
			progressbar.OptionSetWriter(screen),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionThrottle(100*time.Millisecond),
		)...)
	}
	bar, storing := newBar(size, progressbar.OptionShowBytes(true)), false
	show = func(done intake.Progress) {
		if !done.Storing {
			bar.Describe(fmt.Sprintf("reading row %d", done.Rows))
			_ = bar.Set64(done.Bytes)
			return
		}
		if !storing {
			storing = true
			_ = bar.Clear()
			bar = newBar(done.Rows, progressbar.OptionShowIts(), progressbar.OptionSetItsString("rows"), progressbar.OptionShowCount())
			bar.Describe("storing rows")
		}
		_ = bar.Set64(done.Stored)
	}
	return show, func() { _ = bar.Clear() }
}
