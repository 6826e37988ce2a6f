package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// input opens a file to import, or standard input for "-", and shows on a terminal how far it has been read, with the
// rate and the time that remains. Closing it takes the display away.
func (p *program) input(file string) (io.ReadCloser, error) {
	if file == "-" {
		return p.watched(interruptible(p.ctx, p.stdin), -1), nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	size := int64(-1)
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	return p.watched(f, size), nil
}

// interruptible lets go of a source that has nothing more to say when ctx ends: a terminal, or a pipe that stalls.
func interruptible(ctx context.Context, source io.Reader) io.ReadCloser {
	reader, writer := io.Pipe()
	context.AfterFunc(ctx, func() { writer.CloseWithError(ctx.Err()) })
	go func() {
		_, err := io.Copy(writer, source)
		writer.CloseWithError(err)
	}()
	return reader
}

// watched shows the progress of reading size bytes, -1 if nobody knows, when standard error is a terminal.
func (p *program) watched(source io.ReadCloser, size int64) io.ReadCloser {
	screen, isFile := p.stderr.(*os.File)
	if !isFile || !term.IsTerminal(int(screen.Fd())) {
		return source
	}
	bar := progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(screen),
		progressbar.OptionSetDescription("importing"),
		progressbar.OptionShowBytes(true),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionFullWidth(),
		progressbar.OptionClearOnFinish(),
	)
	return watchedReader{Reader: io.TeeReader(source, bar), source: source, bar: bar}
}

type watchedReader struct {
	io.Reader
	source io.Closer
	bar    *progressbar.ProgressBar
}

func (w watchedReader) Close() error {
	_ = w.bar.Clear() // only a display
	return w.source.Close()
}
