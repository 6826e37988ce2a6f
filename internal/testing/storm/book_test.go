//go:build faults

package storm

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"connect-svc/internal/testing/history"
)

// book is what everybody noted.
type book struct {
	mu          sync.Mutex
	connections []*connection
	users       []*user
	toggles     []history.Op
	deliveries  []*delivery
	admitted    []admission
	faults      []happening
}

// admission is a read of the hot client that was answered with data.
type admission struct{ sent, received time.Time }

// happening is a fault, and when it was.
type happening struct {
	kind       string
	began, end time.Duration
}

func newBook() *book { return &book{} }

func (b *book) add(c *connection) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.connections = append(b.connections, c)
}

func (b *book) addUser(u *user) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.users = append(b.users, u)
}

func (b *book) toggled(op history.Op) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.toggles = append(b.toggles, op)
}

func (b *book) deliver(rows int, began time.Duration) *delivery {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.deliveries)
	d := &delivery{name: fmt.Sprint("delivery-", n), day: firstDay.AddDate(0, 0, n%1900), rows: rows, began: began}
	b.deliveries = append(b.deliveries, d)
	return d
}

func (b *book) acknowledge(d *delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d.acked = true
}

func (b *book) refuse(d *delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d.never = true
}

func (b *book) admit(sent, received time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.admitted = append(b.admitted, admission{sent, received})
}

func (b *book) happened(kind string, began, end time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, happening{kind, began, end})
}

// timeline prints the faults, with times as in the histories.
func (b *book) timeline(t *testing.T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var text strings.Builder
	for _, f := range b.faults {
		fmt.Fprintf(&text, "%8.3f %8.3f  %s\n", f.began.Seconds(), f.end.Seconds(), f.kind)
	}
	t.Logf("the faults:\n%s", text.String())
}
