package work

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// flushAgainAfter is the least pause after rows could not be written.
const flushAgainAfter = 5 * time.Second

// Signal is a channel of one place that wakes whoever receives from it. A signal that was not received yet stands for those that follow.
type Signal chan struct{}

// Send never blocks.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// Buffer holds rows that are written behind those who add them: nobody waits for the database, and a server that dies loses the rows of its
// last moment. Set the fields before the first use. It is safe for concurrent use.
type Buffer[Key comparable, Row any] struct {
	Name   string // of the rows in the log, such as "the counts of usage"
	Logger *slog.Logger
	Most   int           // rows that are held, also while they are written; further ones are lost
	Batch  int           // rows of a call of Write
	Every  time.Duration // pause before rows are written, in which they come together; 0: they are written as they come
	Limit  time.Duration // of a call of Write

	Key func(Row) Key
	// Merge adds a row to the one with the same key that waits. Nil: the first one stands.
	Merge func(row *Row, more Row)
	// Admit decides whether a row may wait whose key does not. One call runs at a time, and must not block. Nil: every row may.
	Admit func(Row) bool
	// Write writes rows in the order in which their keys came. It may change the order of the slice. If it fails, written is how many rows,
	// from the first, are done with nevertheless; the others wait.
	Write func(ctx context.Context, rows []Row) (written int, err error)

	flushing sync.Mutex

	mu           sync.Mutex
	waiting      []Row
	places       map[Key]int // of those that wait
	writing      map[Key]int // the places of those that are being written
	lost, logged uint64      // since the start, and those of them that have been logged
	wake         Signal
}

// Add adds a row, or loses it.
func (b *Buffer[Key, Row]) Add(row Row) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(row, b.Admit)
	b.wake.Send()
}

func (b *Buffer[Key, Row]) add(row Row, admit func(Row) bool) {
	key := b.Key(row)
	place, waits := b.places[key]
	_, isWritten := b.writing[key] // then it has a place if it must come back
	switch {
	case waits && b.Merge != nil:
		b.Merge(&b.waiting[place], row)
	case waits:
	case !isWritten && len(b.waiting)+len(b.writing) >= b.Most:
		b.lost++
	case admit == nil || admit(row):
		if b.places == nil {
			b.places = map[Key]int{}
		}
		b.places[key] = len(b.waiting)
		b.waiting = append(b.waiting, row)
	}
}

// Waiting returns how many rows wait or are being written, and how many were lost since the start because too many waited.
func (b *Buffer[Key, Row]) Waiting() (rows int, lost uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting) + len(b.writing), b.lost
}

// Run writes rows until ctx ends, and then once more.
func (b *Buffer[Key, Row]) Run(ctx context.Context) {
	wake := make(Signal, 1)
	wake.Send() // rows may wait already
	b.mu.Lock()
	b.wake = wake
	b.mu.Unlock()
	pause := b.Every
	for again := true; again; {
		select {
		case <-wake:
		case <-ctx.Done():
		}
		again = Pause(ctx, pause)
		if pause = b.Every; !b.Flush(ctx) {
			pause = max(pause, flushAgainAfter)
			wake.Send()
		}
	}
}

// Flush writes the rows that wait, and reports false if some could not be written: they wait for the next flush. The end of ctx does not
// cancel a write, because it would be unknown what was written.
func (b *Buffer[Key, Row]) Flush(ctx context.Context) bool {
	b.flushing.Lock()
	defer b.flushing.Unlock()
	b.mu.Lock()
	left, lost := b.waiting, b.lost-b.logged
	b.waiting, b.places, b.writing, b.logged = nil, nil, b.places, b.lost
	b.mu.Unlock()
	if lost > 0 {
		b.Logger.WarnContext(ctx, b.Name+" are incomplete: too many wait for the database", "lost", lost)
	}
	var err error
	for err == nil && len(left) > 0 {
		batch, done := left[:min(len(left), b.Batch)], 0
		err = Try(func() (err error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.Limit)
			defer cancel()
			if done, err = b.Write(ctx, batch); err == nil {
				done = len(batch)
			}
			return err
		})
		left = left[done:]
	}
	places := make(map[Key]int, len(left))
	for place, row := range left {
		places[b.Key(row)] = place
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	since := b.waiting
	b.writing = nil
	if err == nil {
		return true
	}
	b.waiting, b.places = left, places
	for _, row := range since { // they are few
		b.add(row, nil)
	}
	b.Logger.ErrorContext(ctx, b.Name+" could not be written", "waiting", len(b.waiting), "cause", err)
	return false
}
