package work_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"connect-svc/internal/foundation/work"
)

type answer struct {
	value string
	ok    bool
	err   error
}

// While a call is under way questions wait for the next one, which answers all of them; a question is asked once.
func TestBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls [][]int
		proceed := make(chan struct{})
		failure := errors.New("failed")
		batch := work.NewBatch(3, func(ctx context.Context, asked []int) (map[int]string, error) {
			if caller := work.CallerOf(ctx); caller != (work.Caller{Kind: work.Proofs}) {
				t.Errorf("in the line of %v", caller)
			}
			calls = append(calls, asked)
			<-proceed
			switch len(calls) {
			case 3:
				return nil, failure
			case 4:
				panic("lost")
			}
			return map[int]string{1: "one", 2: "two"}, nil
		})
		ask := func(question int) <-chan answer {
			got := make(chan answer, 1)
			go func() {
				ctx := work.WithCaller(t.Context(), partner("a"))
				value, ok, err := batch.Ask(ctx, question)
				got <- answer{value, ok, err}
			}()
			synctest.Wait()
			return got
		}
		first := ask(1)
		waiting := []<-chan answer{ask(1), ask(2), ask(1), ask(7)}
		full := ask(8)
		gone, leave := context.WithCancel(t.Context())
		leave()
		if _, _, err := batch.Ask(gone, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("one who leaves: %v", err)
		}
		proceed <- struct{}{}
		if got := <-first; got != (answer{"one", true, nil}) {
			t.Errorf("the first: %+v", got)
		}
		proceed <- struct{}{}
		for i, want := range []answer{{"one", true, nil}, {"two", true, nil}, {"one", true, nil}, {"", false, nil}} {
			if got := <-waiting[i]; got != want {
				t.Errorf("question %d: %+v, want %+v", i, got, want)
			}
		}
		proceed <- struct{}{}
		if got := <-full; !errors.Is(got.err, failure) {
			t.Errorf("a call that failed: %+v", got)
		}
		lost := ask(9)
		proceed <- struct{}{}
		if got := <-lost; got.err == nil {
			t.Errorf("a call that panicked: %+v", got)
		}
		if len(calls) != 4 || len(calls[0]) != 1 || len(calls[1]) != 3 || len(calls[2]) != 2 {
			t.Errorf("asked %v", calls)
		}
	})
}

// A call ends with the last of those who asked, in whatever order they came, and none before its own time.
func TestBatchHasTheTimeOfTheLast(t *testing.T) {
	t.Parallel()
	for _, limits := range [][]time.Duration{{1, 2, 3}, {1, 3, 2}, {3, 2, 1}, {1, 0, 2}} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			batch := work.NewBatch(10, func(ctx context.Context, _ []int) (map[int]int, error) {
				select {
				case <-ctx.Done():
					return nil, ctx.Err()
				case <-time.After(10 * time.Second):
					return map[int]int{1: 1}, nil
				}
			})
			for _, limit := range limits {
				limit *= time.Second
				go func() {
					ctx := work.WithCaller(t.Context(), partner("a"))
					if limit > 0 {
						within, cancel := work.Within(ctx, partner("a"), limit)
						defer cancel()
						ctx = within
					}
					_, _, err := batch.Ask(ctx, 1)
					if limit > 0 && (!errors.Is(err, context.DeadlineExceeded) || time.Since(began) != limit) || limit == 0 && err != nil {
						t.Errorf("%v: after %v of %v: %v", limits, time.Since(began), limit, err)
					}
				}()
				synctest.Wait()
			}
			<-time.After(time.Minute)
		})
	}
}

// A call takes nothing but time from those who ask: not what the context of one of them carries, and not how long that one waits for a place.
func TestBatchTakesOnlyTime(t *testing.T) {
	t.Parallel()
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		places := work.NewQueue(1, work.Unbounded)
		if err := places.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		batch := work.NewBatch(10, func(ctx context.Context, _ []int) (map[int]int, error) {
			if work.HasAnyClock(ctx) || work.Actor(ctx) != work.AnyOperator || ctx.Value(key{}) != nil {
				t.Errorf("any clock %t, actor %q, value %v", work.HasAnyClock(ctx), work.Actor(ctx), ctx.Value(key{}))
			}
			return nil, places.Acquire(ctx)
		})
		began := time.Now()
		ask := func(ctx context.Context, limit, wait, want time.Duration, whether error) {
			go func() {
				ctx, leave := work.WithinWhileWanted(work.AnyClock(work.WithActor(context.WithValue(ctx, key{}, "mine"), "ada")), partner("a"), wait)
				defer leave()
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
				defer cancel()
				if _, _, err := batch.Ask(ctx, 1); !errors.Is(err, whether) || time.Since(began) != want {
					t.Errorf("%v of %v: after %v: %v", wait, limit, time.Since(began), err)
				}
			}()
			synctest.Wait()
		}
		gone, leave := context.WithCancel(t.Context())
		ask(t.Context(), time.Second, time.Second, 900*time.Millisecond, work.ErrLate)
		ask(gone, 11*time.Second, time.Second, 2*time.Second, work.ErrGone) // ends last, but waits for a place for 0.9 s only, and goes away
		// The second call begins after 0.9 s, and waits for nine tenths of the 10.1 s that are left.
		ask(t.Context(), 10*time.Second, 10*time.Second, 9990*time.Millisecond, work.ErrLate)
		<-time.After(2 * time.Second)
		leave()
		<-time.After(time.Minute)
	})
}

// Questions with little time that come all the time, as anybody can ask them, shorten no other one while nothing answers.
func TestBatchIsNotShortened(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		batch := work.NewBatch(500, func(ctx context.Context, _ []int) (map[int]int, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		ask := func(question int, limit time.Duration) time.Duration {
			began := time.Now()
			ctx, cancel := work.Within(t.Context(), partner("a"), limit)
			defer cancel()
			if _, _, err := batch.Ask(ctx, question); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("question %d: %v", question, err)
			}
			return time.Since(began)
		}
		const honest, malformed = 4400 * time.Millisecond, time.Second
		for i := range 200 {
			go ask(i, malformed)
			if i%10 == 5 {
				go func() {
					if had := ask(i, honest); had != honest {
						t.Errorf("a question that had %v failed after %v", honest, had)
					}
				}()
			}
			<-time.After(50 * time.Millisecond)
		}
		<-time.After(time.Minute)
	})
}
