package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/page"
	"connect-svc/internal/timelimit"
)

// bounds are what a page of a search and a statement of a file may cost, however many entries there are and however few of them
// fit. A page that ends for its cost says how far it came.
type bounds struct {
	slice int           // how many entries a statement of a page looks at,
	page  int           // how many a page does,
	time  time.Duration // and how long it goes on: entries of a year ago may have to come from the disk
	file  int           // how many entries a statement for a file looks at
}

func usual(limits timelimit.Limits) bounds {
	return bounds{slice: 1_000, page: 20_000, time: limits.Search, file: 5_000}
}

// Page is a part of what was found, in the order that was asked for.
type Page struct {
	Events []Event
	// Next is where the search goes on, the zero value at its end. If there are fewer events than were asked for, the search
	// has looked at so many entries that it stops here, and Next.At is how far it came.
	Next page.Key
}

// slice is what was found in one part of the log. next is where the following part begins, zero at the end.
type slice struct {
	found []Event
	next  page.Key
}

// List returns events that fit the filter, in the order of their times: at most limit of them, 1 or more, those after a position.
// A page takes a bounded time, also where next to nothing fits: it may have few events, or none, and a Next to go on from.
func (l *Log) List(ctx context.Context, filter Filter, after page.Key, limit int) (Page, error) {
	return l.find(ctx, oldestFirst, filter, after, limit)
}

// Search is List from the newest event backwards: the events before a position, whose zero value is after the newest.
func (l *Log) Search(ctx context.Context, filter Filter, before page.Key, limit int) (Page, error) {
	return l.find(ctx, newestFirst, filter, before, limit)
}

func (l *Log) find(ctx context.Context, in order, filter Filter, from page.Key, limit int) (found Page, err error) {
	from = in.begin(filter, from)
	began := time.Now()
	err = l.inOrder(ctx, in, func(look func(Filter, page.Key, int) (slice, error)) error {
		for looked := 0; ; {
			size := l.bounds.slice
			if filter.isOneKind() { // all that it looks at fits
				size = limit - len(found.Events) + 1 // one more tells whether there is another page
			}
			part, err := look(filter, from, size)
			if err != nil {
				return err
			}
			looked += size
			if room := limit - len(found.Events); len(part.found) > room {
				part = slice{part.found[:room], part.found[room-1].Key()}
			}
			found.Events, found.Next = append(found.Events, part.found...), part.next
			from = part.next
			if part.next == (page.Key{}) || len(found.Events) == limit || looked >= l.bounds.page || time.Since(began) > l.bounds.time {
				return nil
			}
		}
	})
	if err != nil {
		return Page{}, fmt.Errorf("audit log: %w", err)
	}
	return found, nil
}

// isOneKind tells whether the entries of the kind that is looked at all fit the filter. Times bound what is looked at.
func (f Filter) isOneKind() bool {
	kinds := 0
	for _, asked := range []bool{f.UserID != uuid.Nil || f.ClientID != uuid.Nil, f.Actor != "", f.Action != ""} {
		if asked {
			kinds++
		}
	}
	return kinds <= 1
}

// order is that of events.
type order bool

const (
	oldestFirst order = false
	newestFirst order = true
)

// endOfTime is after every event that PostgreSQL's year of four digits can have.
var endOfTime = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// begin is the position behind which events may fit, where a page begins behind from. Ids begin with 1.
func (in order) begin(f Filter, from page.Key) page.Key {
	switch {
	case in == oldestFirst && from.At.Before(f.Since):
		return page.Key{At: f.Since}
	case in == newestFirst && from == (page.Key{}):
		return in.begin(f, from.OrNewest())
	case in == newestFirst && !f.Until.IsZero() && !from.At.Before(f.Until):
		return page.Key{At: f.Until}
	}
	return from
}

// end is the instant at which nothing more fits.
func (in order) end(f Filter) time.Time {
	switch {
	case in == newestFirst:
		return f.Since
	case f.Until.IsZero():
		return endOfTime
	}
	return f.Until
}
