package work_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"connect-svc/internal/foundation/work"
)

// table has items that are due, such as "a1": the letter is the key.
type table struct {
	*work.Leases[string, string]
	parallel int
	claim    func() error // called before each claim; nil: nothing
	log      bytes.Buffer

	mu       sync.Mutex
	due      []string
	events   []string // with the time since the beginning
	began    time.Time
	attempts map[string]func(ctx context.Context, release func()) error // of items; the others end at once
}

func newTable() *table {
	tb := &table{parallel: 2, began: time.Now(), attempts: map[string]func(context.Context, func()) error{}}
	tb.Leases = &work.Leases[string, string]{
		Name: "a letter", Logger: slog.New(slog.NewTextHandler(&tb.log, nil)), Wake: make(work.Signal, 1),
		Most: 4, Idle: 10 * time.Second,
		ClaimLimit: 4 * time.Second, AttemptLimit: 10 * time.Second, RecordLimit: 2 * time.Second, StopLimit: 6 * time.Second,
		Line: func(item string) (string, int) { return item[:1], tb.parallel },
		Claim: func(_ context.Context, room map[string]int, limit int) (items []string, due bool, err error) {
			if tb.claim != nil {
				if err := tb.claim(); err != nil {
					return nil, false, err
				}
			}
			tb.mu.Lock()
			defer tb.mu.Unlock()
			left := map[string]int{}
			tb.due = slices.DeleteFunc(tb.due, func(item string) bool {
				key := item[:1]
				if _, known := left[key]; !known {
					left[key] = tb.parallel
					if room, known := room[key]; known {
						left[key] = room
					}
				}
				if left[key] == 0 || limit == 0 {
					return false
				}
				left[key]--
				limit--
				items = append(items, item)
				return true
			})
			return items, len(items) > 0, nil
		},
		Attempt: func(ctx context.Context, item string, release func()) error {
			tb.tell("begin " + item)
			if attempt := tb.attempts[item]; attempt != nil {
				return attempt(ctx, release)
			}
			return nil
		},
		Record: func(ctx context.Context, item string, err, over error) error {
			if end, _ := ctx.Deadline(); time.Until(end) != 2*time.Second || ctx.Err() != nil {
				tb.tell("no time of its own for " + item)
			}
			if panicked := new(work.Panic); errors.As(err, &panicked) {
				err = errors.New("panic")
			}
			tb.tell(fmt.Sprintf("record %s: %v, %v", item, err, over))
			return nil
		},
		Release: func(_ context.Context, items []string) error {
			tb.tell("give back " + strings.Join(items, " "))
			return nil
		},
	}
	return tb
}

func (tb *table) tell(event string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.events = append(tb.events, fmt.Sprint(time.Since(tb.began).Round(time.Millisecond), " ", event))
}

func (tb *table) add(items ...string) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.due = append(tb.due, items...)
}

// run runs the leases for so long, and returns what happened.
func (tb *table) run(t *testing.T, during time.Duration) []string {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), during)
	defer stop()
	tb.Run(ctx)
	return tb.events
}

// hang is an attempt that ends with its context.
func hang(ctx context.Context, _ func()) error {
	<-ctx.Done()
	return errors.New("hung")
}

func check(t *testing.T, got []string, want ...string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// An attempt that panics, or takes too long, has an outcome like any other, which is recorded in a time of its own.
func TestLeasesRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tb := newTable()
		tb.attempts["a1"] = func(context.Context, func()) error { panic("lost") }
		tb.attempts["b1"] = hang
		tb.attempts["c1"] = func(context.Context, func()) error { return errors.New("refused") }
		tb.add("a1", "b1", "c1", "d1")
		check(t, tb.run(t, time.Minute), "0s begin a1", "0s begin b1", "0s begin c1", "0s begin d1",
			"0s record a1: panic, <nil>", "0s record c1: refused, <nil>", "0s record d1: <nil>, <nil>",
			"10s record b1: hung, context deadline exceeded")

		record := tb.Record
		tb.Record = func(ctx context.Context, item string, err, over error) error {
			_ = record(ctx, item, err, over)
			if item == "a2" {
				panic("cannot record")
			}
			return errors.New("cannot record either")
		}
		tb.add("a2", "b2")
		tb.run(t, time.Minute)
		if n := strings.Count(tb.log.String(), "an outcome could not be recorded"); n != 2 || len(tb.events) != 12 {
			t.Errorf("%d of 2 failures are in the log: %s", n, &tb.log)
		}
	})
}

// The items of a key have a number of places, and all items together another. A place that comes free is filled at once, also when an
// attempt gives it before its end. Run waits for such an attempt.
func TestLeasesPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tb := newTable()
		after := func(d time.Duration) func(context.Context, func()) error {
			return func(context.Context, func()) error { <-time.After(d); return nil }
		}
		tb.attempts["a1"], tb.attempts["a2"], tb.attempts["b1"] = after(3*time.Second), after(5*time.Second), after(4*time.Second)
		tb.attempts["c1"] = func(_ context.Context, release func()) error {
			<-time.After(time.Second)
			release()
			<-time.After(8 * time.Second)
			return nil
		}
		tb.add("a1", "a2", "a3", "b1", "c1", "d1", "a4")
		check(t, tb.run(t, 8*time.Second), "0s begin a1", "0s begin a2", "0s begin b1", "0s begin c1", "1s begin d1", "1s record d1: <nil>, <nil>",
			"3s begin a3", "3s begin a4", "3s record a1: <nil>, <nil>", "3s record a3: <nil>, <nil>", "3s record a4: <nil>, <nil>",
			"4s record b1: <nil>, <nil>", "5s record a2: <nil>, <nil>", "9s record c1: <nil>, <nil>")
	})
}

// While more keys hang than there are places for, and their items are due for longer than all others, each of these finds a place.
func TestLeasesWhileManyHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tb := newTable()
		tb.parallel, tb.Most, tb.Pace, tb.Idle = 4, 8, 100*time.Millisecond, time.Second
		for n := range 40 {
			for _, key := range []string{"a", "b", "c"} {
				item := fmt.Sprint(key, n)
				tb.attempts[item] = hang
				tb.add(item)
			}
		}
		healthy := []string{"d1", "e1", "d2"}
		tb.add(healthy...)
		events := tb.run(t, time.Minute)
		for _, item := range healthy {
			if !slices.ContainsFunc(events, func(event string) bool { return strings.HasSuffix(event, "record "+item+": <nil>, <nil>") }) {
				t.Errorf("%s does not get its turn within a minute", item)
			}
		}
	})
}

// A server that stops begins nothing. Its attempts have some time to end, and items that wait are free for others at once.
func TestLeasesStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tb := newTable()
		tb.Pace, tb.Ahead = 100*time.Millisecond, 8
		tb.attempts["a1"], tb.attempts["b1"] = hang, func(context.Context, func()) error { <-time.After(3 * time.Second); return nil }
		tb.add("a1", "b1", "b2")
		tb.parallel = 1
		claim, claims := tb.Claim, 0
		tb.Claim = func(ctx context.Context, room map[string]int, limit int) ([]string, bool, error) {
			if claims++; claims == 2 {
				<-time.After(500 * time.Millisecond) // until after the stop
				return []string{"c1"}, true, nil
			}
			return claim(ctx, map[string]int{"b": 2}, limit)
		}
		check(t, tb.run(t, 500*time.Millisecond), "0s begin a1", "0s begin b1", "600ms give back c1 b2", "3s record b1: <nil>, <nil>",
			"6.5s record a1: hung, context canceled")
		if tb.log.Len() > 0 {
			t.Errorf("the log: %s", &tb.log)
		}
	})
}

// Without Release an item that is given back is recorded as broken off.
func TestLeasesWithoutRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tb := newTable()
		tb.Release, tb.ClaimLimit = nil, tb.RecordLimit
		tb.Claim = func(context.Context, map[string]int, int) ([]string, bool, error) {
			<-time.After(2 * time.Second) // until after the stop
			return []string{"a1"}, true, nil
		}
		check(t, tb.run(t, time.Second), "2s record a1: context canceled, context canceled")
	})
}

// An item that waits behind an attempt for too long is given back: the receiver has become slow.
func TestLeasesThatWaitTooLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tb := newTable()
		tb.parallel, tb.Pace, tb.Ahead = 1, time.Hour, 8
		quick := func(context.Context, func()) error { <-time.After(100 * time.Millisecond); return nil }
		tb.attempts["a1"], tb.attempts["a3"] = quick, func(context.Context, func()) error { <-time.After(2 * time.Second); return nil }
		tb.add("a1", "a2", "a3", "a4", "a5", "a6")
		// One is claimed, then two because the first was quick, and so on.
		check(t, tb.run(t, time.Minute), "0s begin a1", "100ms record a1: <nil>, <nil>", "100ms begin a2", "100ms record a2: <nil>, <nil>",
			"100ms begin a3", "2.1s record a3: <nil>, <nil>", "2.1s give back a4 a5 a6")
	})
}

// Without anything that is due a server claims seldom, and at once when it is woken, or after a while when a claim failed.
func TestLeasesWake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tb := newTable()
		tb.Pace = time.Second
		var at []time.Duration
		tb.claim = func() error {
			at = append(at, time.Since(tb.began))
			switch len(at) {
			case 4:
				return errors.New("the database is away")
			case 6:
				panic("lost")
			}
			return nil
		}
		go func() {
			<-time.After(12 * time.Second)
			tb.add("a1")
			tb.Wake.Send()
			tb.Wake.Send()
		}()
		tb.run(t, time.Minute)
		want := []time.Duration{0, 10, 12, 13, 23, 25, 35, 39, 47, 57}
		for i := range want {
			want[i] *= time.Second
		}
		if diff := cmp.Diff(want, at); diff != "" {
			t.Errorf("times of claims (-want +got):\n%s", diff)
		}
	})
}

// Claims take at most a twentieth of a server's time while the database is slow. One that took long because the database was away holds up
// the next one only for a moment.
func TestLeasesRest(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]time.Duration{
		time.Millisecond:       100 * time.Millisecond,
		20 * time.Millisecond:  400 * time.Millisecond,
		200 * time.Millisecond: 4 * time.Second,
		4 * time.Second:        9 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			tb := newTable()
			tb.Pace = 100 * time.Millisecond
			tb.add("a1", "b1", "c1")
			var at []time.Duration
			tb.claim = func() error {
				at = append(at, time.Since(tb.began))
				<-time.After(took)
				return nil
			}
			tb.run(t, 5*time.Minute)
			if at[1] != want {
				t.Errorf("the next claim begins %s after one that took %s, want %s", at[1], took, want)
			}
		})
	}
}
