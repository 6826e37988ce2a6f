package intake

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// ShowProgress shows on a terminal how far an import of size bytes is, with its rate and the time that remains. finish removes the
// display. A display that fails does not stop the import.
func ShowProgress(screen io.Writer, size int64) (show func(Progress), finish func()) {
	newBar := func(size int64, options ...progressbar.Option) *progressbar.ProgressBar {
		return progressbar.NewOptions64(size, append(options,
			progressbar.OptionSetWriter(screen),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionThrottle(100*time.Millisecond),
		)...)
	}
	bar, storing := newBar(size, progressbar.OptionShowBytes(true)), false
	show = func(done Progress) {
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
