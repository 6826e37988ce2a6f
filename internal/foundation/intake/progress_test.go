package intake

import (
	"bytes"
	"strings"
	"testing"
)

// While rows are stored the display goes on, with a rate and the time that remains.
func TestProgressWhileStoring(t *testing.T) {
	t.Parallel()
	var screen bytes.Buffer
	show, finish := ShowProgress(&screen, 1000)
	show(Progress{Rows: 50, Bytes: 500})
	for stored := range int64(100) {
		show(Progress{Rows: 100, Bytes: 1000, Storing: true, Stored: stored})
	}
	show(Progress{Rows: 100, Bytes: 1000, Storing: true, Stored: 100})
	finish()
	for _, want := range []string{"reading row 50", "storing rows", "(100/100", "rows/s"} {
		if !strings.Contains(screen.String(), want) {
			t.Errorf("the display has no %q:\n%q", want, screen.String())
		}
	}
}
