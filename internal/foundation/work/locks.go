package work

import (
	"context"
	"sync"
)

// Locks lets one caller at a time hold each key. Those that wait for it are served as a [Queue] serves them. It is safe for
// concurrent use.
type Locks[Key comparable] struct {
	mu   sync.Mutex
	keys map[Key]*lock
}

// lock exists while somebody holds the key or waits for it.
type lock struct {
	*Queue
	wanted int
}

// NewLocks returns Locks of which no key is held.
func NewLocks[Key comparable]() *Locks[Key] { return &Locks[Key]{keys: map[Key]*lock{}} }

// Lock takes the key for the caller of the context. Call unlock when done. Errors: those of [Queue.Acquire].
func (l *Locks[Key]) Lock(ctx context.Context, key Key) (unlock func(), err error) {
	l.mu.Lock()
	mine := l.keys[key]
	if mine == nil {
		mine = &lock{Queue: NewQueue(1, Unbounded)}
		l.keys[key] = mine
	}
	mine.wanted++
	l.mu.Unlock()
	if err := mine.Acquire(ctx); err != nil {
		l.forget(key, mine)
		return nil, err
	}
	return func() {
		mine.Release()
		l.forget(key, mine)
	}, nil
}

func (l *Locks[Key]) forget(key Key, mine *lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if mine.wanted--; mine.wanted == 0 {
		delete(l.keys, key)
	}
}
