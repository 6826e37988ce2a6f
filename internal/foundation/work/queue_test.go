package work_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"connect-svc/internal/foundation/work"
)

func partner(name string) work.Caller {
	return work.Caller{Kind: work.Partners, Name: name}
}

// waiter asks for a place and says when it got one.
func waiter(t *testing.T, q *work.Queue, caller string, got chan<- string) {
	t.Helper()
	ctx := work.WithCaller(t.Context(), partner(caller))
	go func() {
		if err := q.Acquire(ctx); err == nil {
			got <- caller
		}
	}()
	synctest.Wait() // it waits now
}

// A caller with many requests waits behind itself: others come next after one of them.
func TestQueueServesCallersInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := work.NewQueue(1, 100)
		if err := q.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := make(chan string, 100)
		for _, caller := range []string{"a", "a", "a", "a", "b", "b", "c"} {
			waiter(t, q, caller, got)
		}
		want := []string{"a", "b", "c", "a", "b", "a", "a"}
		for i, caller := range want {
			q.Release()
			if served := <-got; served != caller {
				t.Errorf("turn %d is %s's, want %s's", i, served, caller)
			}
		}
		q.Release()
		if err := q.Acquire(t.Context()); err != nil {
			t.Errorf("the place was lost: %v", err)
		}
		if got, want := q.Stats(), (work.Stats{Acquired: 9, Waited: 7}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

// Any number of strangers have one turn for one of a partner.
func TestQueueServesKindsInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := work.NewQueue(1, work.Unbounded)
		if err := q.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := make(chan string, 100)
		ask := func(kind work.Kind, name string) {
			ctx := work.WithCaller(t.Context(), work.Caller{Kind: kind, Name: name})
			go func() {
				if err := q.Acquire(ctx); err == nil {
					got <- name
				}
			}()
			synctest.Wait()
		}
		for i := range 50 {
			ask(work.Strangers, fmt.Sprint(i))
		}
		for _, name := range []string{"a", "a", "b"} {
			ask(work.Partners, name)
		}
		for i, want := range []string{"0", "a", "1", "b", "2", "a", "3", "4"} {
			q.Release()
			if served := <-got; served != want {
				t.Errorf("turn %d is %s's, want %s's", i, served, want)
			}
		}
		if waiting := q.Stats().Waiting; waiting != 45 {
			t.Errorf("%d wait, want 45", waiting)
		}
	})
}

// New requests of a caller are served in order until the first has waited for long, and from then on the newest first. Requests that have begun, and
// work without a limit of time, are always served in order.
func TestQueueServesNewestWhenLate(t *testing.T) {
	t.Parallel()
	request := func(t *testing.T) context.Context {
		ctx, cancel := work.Within(t.Context(), partner("a"), time.Minute)
		t.Cleanup(cancel)
		return ctx
	}
	for name, test := range map[string]struct {
		context func(*testing.T) context.Context
		want    string
	}{
		"new":          {request, "1432"},
		"begun":        {func(t *testing.T) context.Context { return work.Begun(request(t)) }, "1234"},
		"without time": {func(t *testing.T) context.Context { return work.WithCaller(t.Context(), partner("a")) }, "1234"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := work.NewQueue(1, work.Unbounded)
				if err := q.Acquire(t.Context()); err != nil {
					t.Fatal(err)
				}
				got := make(chan string, 4)
				for n := range cap(got) {
					ctx := test.context(t)
					go func() {
						if err := q.Acquire(ctx); err == nil {
							got <- fmt.Sprint(n + 1)
						}
					}()
					synctest.Wait()
				}
				served := ""
				for range cap(got) {
					q.Release()
					served += <-got
					<-time.After(time.Second)
				}
				if served != test.want {
					t.Errorf("served %s, want %s", served, test.want)
				}
			})
		})
	}
}

// A place that is added goes to one that waits, and one that is taken away comes back to nobody.
func TestQueueWithMoreAndFewerPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := work.NewQueue(1, work.Unbounded)
		var served atomic.Int32
		for range 6 {
			go func() {
				if err := q.Acquire(t.Context()); err == nil {
					served.Add(1)
				}
			}()
		}
		for step, test := range []struct {
			act  func()
			want int32
		}{
			{func() {}, 1},
			{func() { q.Add(1) }, 2},
			{func() { q.Add(-2) }, 2},
			{q.Release, 2},
			{func() { q.Add(1) }, 2}, // in place of the one in use that was taken away
			{q.Release, 3},
			{func() { q.Add(2) }, 5},
			{q.Release, 6},
		} {
			test.act()
			synctest.Wait()
			if got := served.Load(); got != test.want {
				t.Errorf("step %d: %d are served, want %d", step, got, test.want)
			}
		}
	})
}

// A request leaves the line while there is time to answer it: the sooner the more is left to do.
func TestQueueIsBoundedByTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := work.NewQueue(1, work.Unbounded)
		if err := q.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			limit time.Duration
			begun bool
			want  time.Duration
		}{
			{1500 * time.Millisecond, false, 1100 * time.Millisecond},
			{1500 * time.Millisecond, true, 1350 * time.Millisecond},
			{6 * time.Second, false, 5400 * time.Millisecond},
			{6 * time.Second, true, 5400 * time.Millisecond},
			{600 * time.Millisecond, false, 400 * time.Millisecond},
		} {
			began := time.Now()
			ctx, cancel := work.Within(t.Context(), partner("a"), test.limit)
			if test.begun {
				work.Begin(ctx)
			}
			if err := q.Acquire(ctx); !errors.Is(err, work.ErrLate) || time.Since(began) != test.want {
				t.Errorf("%v, begun %t: after %v: %v", test.limit, test.begun, time.Since(began), err)
			}
			cancel()
		}
	})
}

// Requests that have begun come before new ones of their kind. That holds for the first places of a request: one that needs many
// keeps nobody from beginning.
func TestQueueCompletesWhatIsBegun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := work.NewQueue(1, work.Unbounded)
		if err := q.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := make(chan string, 100)
		ask := func(name string, caller work.Caller, begun int) {
			ctx, cancel := work.Within(t.Context(), caller, time.Hour)
			for range begun {
				work.Begin(ctx)
			}
			go func() {
				defer cancel()
				if err := q.Acquire(ctx); err == nil {
					got <- name
				}
			}()
			synctest.Wait()
		}
		ask("new", partner("a"), 0)
		ask("new of another", partner("b"), 0)
		ask("needs many", partner("c"), 9)
		ask("begun", partner("a"), 1)
		ask("begun of another", partner("d"), 8)
		ask("a user", work.Caller{Kind: work.Users}, 0)
		go func() {
			if err := q.Acquire(work.Begun(work.WithCaller(t.Context(), partner("a")))); err == nil {
				got <- "part of begun"
			}
		}()
		synctest.Wait()
		for turn, want := range []string{"begun", "a user", "begun of another", "part of begun", "new", "new of another", "needs many"} {
			q.Release()
			if served := <-got; served != want {
				t.Errorf("turn %d is that of %q, want %q", turn, served, want)
			}
		}
	})
}

// Alone, a caller has every place.
func TestQueueIsWorkConserving(t *testing.T) {
	t.Parallel()
	q := work.NewQueue(5, 0)
	for range 5 {
		if err := q.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Acquire(t.Context()); !errors.Is(err, work.ErrFull) {
		t.Errorf("a sixth of five places: %v", err)
	}
}

// A full line is the trouble of its caller.
func TestQueueIsBoundedForEachCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := work.NewQueue(1, 2)
		if err := q.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := make(chan string, 10)
		waiter(t, q, "a", got)
		waiter(t, q, "a", got)
		if err := q.Acquire(work.WithCaller(t.Context(), partner("a"))); !errors.Is(err, work.ErrFull) {
			t.Errorf("a third of a in the line: %v", err)
		}
		waiter(t, q, "b", got)
		for range 3 {
			q.Release()
			<-got
		}
	})
}

// A caller that stops waiting leaves the queue, and no place is lost.
func TestQueueLosesNoPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := work.NewQueue(1, 10)
		if err := q.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(work.WithCaller(t.Context(), partner("a")), time.Second)
		defer cancel()
		if err := q.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waiting in vain: %v", err)
		}
		q.Release()
		if err := q.Acquire(work.WithCaller(t.Context(), partner("b"))); err != nil {
			t.Error(err)
		}
		if got, want := q.Stats(), (work.Stats{Acquired: 2, GivenUp: 1, WaitTime: time.Second}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		// Nor does one wait whose caller has gone, where nothing is changed by that.
		gone, leave := context.WithCancel(t.Context())
		leave()
		for _, within := range []func(context.Context, work.Caller, time.Duration) (context.Context, context.CancelFunc){
			work.Within, work.WithinWhileWanted,
		} {
			ctx, cancel := within(gone, partner("a"), time.Minute)
			began := time.Now()
			err := q.Acquire(ctx)
			if wanted := errors.Is(err, work.ErrGone); wanted != (time.Since(began) == 0) || err == nil {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
			cancel()
		}
	})
}

// leaving is the context of who gets the place of another at the moment in which it ends.
type leaving struct {
	context.Context
	queue *work.Queue
}

func (l leaving) Done() <-chan struct{} {
	l.queue.Release()
	return l.Context.Done()
}

// A caller that leaves while a place is handed over takes it or returns it: which of the two is chance.
func TestQueueLosesNoPlaceHandedOver(t *testing.T) {
	t.Parallel()
	for range 64 {
		q := work.NewQueue(1, 1)
		if err := q.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := q.Acquire(leaving{canceled(), q}); err == nil {
			q.Release()
		}
		if err := q.Acquire(canceled()); err != nil {
			t.Fatalf("the place was lost: %v", err)
		}
	}
}

// However callers come, wait, give up and go: no more have a place than there are, and in the end all are free.
func TestQueueProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		places := rapid.IntRange(1, 4).Draw(rt, "places")
		q := work.NewQueue(places, 3)
		var having, most atomic.Int64
		var all sync.WaitGroup
		for i := range rapid.IntRange(1, 60).Draw(rt, "asked") {
			limit := time.Duration(rapid.IntRange(0, 300).Draw(rt, "microseconds")) * time.Microsecond
			all.Go(func() {
				ctx, cancel := context.WithTimeout(work.WithCaller(t.Context(), work.Caller{Kind: work.Kind(i % 2), Name: fmt.Sprint(i % 5)}), limit)
				defer cancel()
				if q.Acquire(ctx) != nil {
					return
				}
				n := having.Add(1)
				for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
				}
				having.Add(-1)
				q.Release()
			})
		}
		all.Wait()
		if most.Load() > int64(places) {
			rt.Fatalf("%d had one of %d places", most.Load(), places)
		}
		for range places {
			if err := q.Acquire(t.Context()); err != nil {
				rt.Fatalf("a place was lost: %v", err)
			}
		}
		if err := q.Acquire(work.WithCaller(canceled(), partner("x"))); err == nil {
			rt.Fatal("there is a place more than there were")
		}
	})
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// One at a time has a key, in turn with other callers; other keys are free; nothing is kept of a key that nobody has.
func TestLocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		locks := work.NewLocks[int]()
		unlock, err := locks.Lock(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if other, err := locks.Lock(t.Context(), 2); err != nil {
			t.Errorf("another key: %v", err)
		} else {
			other()
		}
		got := make(chan func())
		for _, caller := range []string{"a", "b"} {
			go func() {
				next, err := locks.Lock(work.WithCaller(t.Context(), partner(caller)), 1)
				if err != nil {
					t.Error(err)
				}
				got <- next
			}()
		}
		synctest.Wait()
		unlock()
		(<-got)()
		(<-got)()
		if n := locks.Len(); n != 0 {
			t.Errorf("%d keys are kept", n)
		}
	})
}
