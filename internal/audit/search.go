package audit

import (
	"context"
	"fmt"
	"math"
	"time"
)

// bounds are what a page of a search and a statement of a file may cost, however many entries there are and however few of them
// fit. A page that ends for its cost says how far it came.
type bounds struct {
	slice int           // how many entries a statement of a page looks at,
	page  int           // how many a page does,
	time  time.Duration // and how long it goes on: entries of a year ago may have to come from the disk
	file  int           // how many entries a statement for a file looks at
}

var usual = bounds{slice: 1_000, page: 20_000, time: 60 * time.Millisecond, file: 5_000}

// Page is a part of what a search found, newest first.
type Page struct {
	Events []Event
	// Next is where the search goes on, the zero value at its end. If there are fewer events than were asked for, the search
	// has looked at so many entries that it stops here, and Next.At is how far back it came.
	Next Position
}

// slice is what was found in one part of the log. next is where the following part begins, zero at the end.
type slice struct {
	found []Event
	next  Position
}

// Search returns events that fit the filter, newest first: at most limit of them, 1 or more, those before a position. The zero
// position is after the newest event. A page takes a bounded time, also where next to nothing fits: it may have few events, or
// none, and a Next to go on from.
func (l *Log) Search(ctx context.Context, filter Filter, before Position, limit int) (page Page, err error) {
	before = filter.newest(before)
	began := time.Now()
	err = l.inOrder(ctx, func(look func(Filter, Position, int) (slice, error)) error {
		for looked := 0; ; {
			size := l.bounds.slice
			if filter.isOneKind() { // all that it looks at fits
				size = limit - len(page.Events) + 1 // one more tells whether there is another page
			}
			part, err := look(filter, before, size)
			if err != nil {
				return err
			}
			looked += size
			if room := limit - len(page.Events); len(part.found) > room {
				part = slice{part.found[:room], part.found[room-1].Position()}
			}
			page.Events, page.Next = append(page.Events, part.found...), part.next
			before = part.next
			if part.next == (Position{}) || len(page.Events) == limit || looked >= l.bounds.page || time.Since(began) > l.bounds.time {
				return nil
			}
		}
	})
	if err != nil {
		return Page{}, fmt.Errorf("audit log: %w", err)
	}
	return page, nil
}

// isOneKind tells whether the entries of the kind that is looked at all fit the filter. Times bound what is looked at.
func (f Filter) isOneKind() bool {
	kinds := 0
	for _, asked := range []bool{f.UserID != [16]byte{}, f.ClientID != [16]byte{}, f.Actor != "", f.Action != ""} {
		if asked {
			kinds++
		}
	}
	return kinds <= 1
}

// endOfTime is after every event that PostgreSQL's year of four digits can have.
var endOfTime = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// newest is the position before which events may fit.
func (f Filter) newest(before Position) Position {
	if before == (Position{}) {
		before = Position{endOfTime, math.MaxInt64}
	}
	if !f.Until.IsZero() && !before.At.Before(f.Until) {
		before = Position{f.Until, 0} // ids begin with 1
	}
	return before
}
