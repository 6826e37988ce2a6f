package work

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

const (
	// lookShare and mostRest: if claims are slow, a server spends at most one part in lookShare of its time on them, but rests no longer than
	// mostRest after one: it may have taken long because the database was away.
	lookShare = 20
	mostRest  = 5 * time.Second
	// afterFault is the least pause after a claim that failed.
	afterFault = time.Second
	// waitAhead is how long an item may wait after its claim until its attempt begins.
	waitAhead = time.Second
)

// Leases does what waits in a table, beside any number of other servers. It claims items that are due, which leases them, attempts each and
// records the outcome, which ends the lease. An item whose server dies is due again when its lease ends. Items of the same key wait for one
// another, so that a hanging receiver delays nobody else's. Set the fields before the first use.
type Leases[Key comparable, Item any] struct {
	Name   string // of an item in the log, such as "an email"
	Logger *slog.Logger
	Wake   Signal // items may be due; without it they are found at the next claim

	// Claim leases up to limit items, and of each key up to its room; a key without room has nothing in flight. One call runs at a time. due:
	// items were due, of which another server may have leased some meanwhile.
	Claim func(ctx context.Context, room map[Key]int, limit int) (items []Item, due bool, err error)
	// Line returns the key of an item, and how many of that key are attempted at the same time.
	Line func(Item) (key Key, parallel int)
	// Attempt attempts an item. release, which may be called before the end, gives its place to the next item.
	Attempt func(ctx context.Context, item Item, release func()) error
	// Record records the outcome of an attempt: its error, which is a *[Panic] if it panicked, and over, the error of its context, whose time was
	// over or whose server stops. If it fails, the item is attempted again when its lease ends.
	Record func(ctx context.Context, item Item, err, over error) error
	// Release ends the leases of items that are not attempted. Nil: each is recorded as an attempt that the server broke off.
	Release func(ctx context.Context, items []Item) error

	Most  int // items with a lease that is held at the same time
	Ahead int // of them, those of one key that are claimed before they can be attempted; less than parallel: none
	// Pace is the least time from one claim to the next while items are due; 0: a claim follows at once, also when a place comes free. Without
	// items that are due, the time doubles up to Idle.
	Pace, Idle time.Duration

	ClaimLimit, AttemptLimit, RecordLimit time.Duration
	StopLimit                             time.Duration // of attempts in flight when the server stops
}

// line has the leased items of one key.
type line[Item any] struct {
	waiting []Item
	since   []time.Time // when they were claimed
	sending int
	slow    bool // the last attempt took longer than waitAhead
	// ahead is how many items are wanted here. It starts with the number that is attempted at the same time, and doubles each time that half of
	// them were done quickly, so that fewer claims are needed.
	ahead     int
	more      bool      // the last claim brought as many items as it had room for
	claimedAt time.Time // the time of that claim
}

func (l *line[Item]) held() int { return len(l.waiting) + l.sending }

// leasing is a run of Leases.
type leasing[Key comparable, Item any] struct {
	*Leases[Key, Item]
	working  context.Context // of attempts
	lines    map[Key]*line[Item]
	released chan func() bool // see release
	attempts sync.WaitGroup
}

// Lease returns how long a lease must last: longer than a claim, the wait after it, an attempt and its record together, so that no other server
// attempts the item before the outcome is recorded.
func (l *Leases[Key, Item]) Lease() time.Duration {
	return l.ClaimLimit + waitAhead + l.AttemptLimit + l.RecordLimit + time.Second
}

// Run claims items and attempts them until ctx ends. Then it gives the attempts in flight some time, and ends the leases of items that wait.
func (l *Leases[Key, Item]) Run(ctx context.Context) {
	working, breakOff := context.WithCancel(context.WithoutCancel(ctx))
	defer breakOff()
	context.AfterFunc(ctx, func() { time.AfterFunc(l.StopLimit, breakOff) })
	run := leasing[Key, Item]{Leases: l, working: working, lines: map[Key]*line[Item]{}, released: make(chan func() bool)}

	var ( // of a claim
		room  map[Key]int
		items []Item
		due   bool
		err   error
	)
	claimed := make(chan struct{})
	claiming, again := false, false // again: a claim was due while one was under way
	woken := false                  // while a claim was under way
	var began, notBefore time.Time  // of a claim, and the next one
	interval := l.Idle
	next := time.NewTimer(0)
	defer next.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case release := <-run.released:
			switch {
			case !release():
			case claiming:
				again = true
			default:
				next.Reset(0)
			}
		case <-l.Wake:
			if woken = claiming; !woken {
				next.Reset(time.Until(notBefore))
			}
		case <-next.C:
			if claiming {
				again = true
				break
			}
			claiming, began, room = true, time.Now(), map[Key]int{}
			limit, slow := l.Most, 0
			for _, line := range run.lines {
				if limit -= line.held(); line.slow {
					slow++
				}
			}
			for key, line := range run.lines {
				room[key] = max(0, line.ahead-line.held())
				if line.slow { // together they leave a quarter of the places to others
					room[key] = max(0, min(line.ahead, max(1, (3*l.Most+3)/4/slow))-line.held())
				}
			}
			go func() {
				defer func() { claimed <- struct{}{} }()
				limited, cancel := context.WithTimeout(working, l.ClaimLimit)
				defer cancel()
				items, due = nil, false
				err = Try(func() (err error) {
					items, due, err = l.Claim(limited, room, limit)
					return err
				})
			}()
		case <-claimed:
			claiming = false
			notBefore = began
			if took := time.Since(began); l.Pace > 0 {
				notBefore = began.Add(max(l.Pace, took+min((lookShare-1)*took, mostRest)))
			}
			run.hold(items, room)
			switch {
			case err != nil:
				l.Logger.Error("the next ones that are due could not be leased", "of", l.Name, "cause", err)
				next.Reset(max(afterFault, l.Idle))
			case again:
				next.Reset(0)
			case !due && !woken:
				if interval *= 2; interval == 0 || interval > l.Idle {
					interval = l.Idle
				}
				next.Reset(max(interval, time.Until(notBefore)))
			default:
				interval = l.Pace
				next.Reset(time.Until(notBefore))
			}
			again, woken = false, false
		}
	}

	var waiting []Item
	if claiming {
		<-claimed
		waiting = items
	}
	sending := 0
	for _, line := range run.lines {
		waiting = append(waiting, line.waiting...)
		sending += line.sending
	}
	run.giveBack(waiting)
	for range sending {
		<-run.released
	}
	run.attempts.Wait()
}

// Do attempts a leased item and records the outcome, in a time of its own: that of the attempt may be over. Errors: those of Record, and
// a *[Panic] of it.
func (l *Leases[Key, Item]) Do(ctx context.Context, item Item, release func()) error {
	limited, cancel := context.WithTimeout(ctx, l.AttemptLimit)
	defer cancel()
	err := Try(func() error { return l.Attempt(limited, item, release) })
	recording, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.RecordLimit)
	defer cancel()
	return Try(func() error { return l.Record(recording, item, err, limited.Err()) })
}

// release gives the place of an item to the next one of its key. It reports whether more should be claimed.
func (r *leasing[Key, Item]) release(key Key, took time.Duration) bool {
	line := r.lines[key]
	line.slow = took > waitAhead
	line.sending--
	r.dispatch(line)
	if !line.more || line.held() > line.ahead/2 {
		return r.Pace == 0
	}
	line.more = false
	if time.Since(line.claimedAt) < waitAhead/2 {
		line.ahead = max(line.ahead, min(2*line.ahead, r.Ahead))
	}
	return true
}

// hold adds the items of a claim to the lines, and removes lines that have been empty for a while.
func (r *leasing[Key, Item]) hold(items []Item, room map[Key]int) {
	now := time.Now()
	brought := map[Key]int{}
	for _, item := range items {
		key, parallel := r.Line(item)
		if r.lines[key] == nil {
			r.lines[key] = &line[Item]{ahead: parallel}
		}
		line := r.lines[key]
		line.waiting, line.since = append(line.waiting, item), append(line.since, now)
		brought[key]++
	}
	for key, line := range r.lines {
		switch n := brought[key]; {
		case n > 0:
			asked, known := room[key]
			line.claimedAt, line.more = now, n >= asked && (known || n >= line.ahead)
			r.dispatch(line)
		case line.held() == 0 && now.Sub(line.claimedAt) > 2*waitAhead:
			delete(r.lines, key)
		}
	}
}

// dispatch begins attempts of a key, as many as it may have at the same time. The leases of items that waited too long end: the receiver has
// become slow.
func (r *leasing[Key, Item]) dispatch(line *line[Item]) {
	var late []Item
	for len(line.waiting) > 0 {
		item, at := line.waiting[0], line.since[0]
		key, parallel := r.Line(item)
		if line.sending >= parallel {
			break
		}
		line.waiting, line.since = line.waiting[1:], line.since[1:]
		if time.Since(at) > waitAhead {
			late, line.ahead = append(late, item), parallel
			continue
		}
		line.sending++
		r.attempts.Go(func() {
			began := time.Now()
			release := sync.OnceFunc(func() { took := time.Since(began); r.released <- func() bool { return r.release(key, took) } })
			defer release()
			if err := r.Do(r.working, item, release); err != nil && r.working.Err() == nil {
				r.Logger.Error("an outcome could not be recorded", "of", r.Name, "cause", err)
			}
		})
	}
	if len(late) > 0 {
		r.attempts.Go(func() { r.giveBack(late) })
	}
}

func (r *leasing[Key, Item]) giveBack(items []Item) {
	if len(items) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(r.working, r.ClaimLimit)
	defer cancel()
	err := Try(func() (err error) {
		if r.Release != nil {
			return r.Release(ctx, items)
		}
		for _, item := range items {
			err = errors.Join(err, r.Record(ctx, item, context.Canceled, context.Canceled))
		}
		return err
	})
	if err != nil {
		r.Logger.Error("leases could not be ended", "of", r.Name, "cause", err)
	}
}
