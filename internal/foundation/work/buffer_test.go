package work_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"connect-svc/internal/foundation/work"
)

// count is a row that counts a letter.
type count struct {
	letter string
	n      int
}

// writes is what a test's buffer has written, and the log.
type writes struct {
	work.Buffer[string, count]
	got  []string // letters and counts, a text for each call
	fail error
	done int // rows that a write is done with although it fails
	log  bytes.Buffer
}

func newWrites() *writes {
	w := new(writes)
	w.Buffer = work.Buffer[string, count]{
		Name: "letters", Logger: slog.New(slog.NewTextHandler(&w.log, nil)), Most: 4, Batch: 4, Limit: time.Minute,
		Key:   func(c count) string { return c.letter },
		Merge: func(c *count, more count) { c.n += more.n },
		Write: func(_ context.Context, rows []count) (int, error) {
			var text strings.Builder
			for _, row := range rows {
				text.WriteString(strings.Repeat(row.letter, row.n))
			}
			w.got = append(w.got, text.String())
			return w.done, w.fail
		},
	}
	return w
}

func (w *writes) add(letters string) {
	for _, letter := range letters {
		w.Add(count{string(letter), 1})
	}
}

func (w *writes) check(t *testing.T, wantWaiting int, wantLost uint64, want ...string) {
	t.Helper()
	waiting, lost := w.Waiting()
	if waiting != wantWaiting || lost != wantLost {
		t.Errorf("%d wait and %d are lost, want %d and %d", waiting, lost, wantWaiting, wantLost)
	}
	if diff := cmp.Diff(want, w.got); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	w.got = nil
}

// Equal rows are one. Rows beyond the bound are lost, the log tells of each once, and a row that waits is added to nevertheless. They are
// written in their order, in batches.
func TestBuffer(t *testing.T) {
	t.Parallel()
	w := newWrites()
	w.Batch = 3
	w.add("dcbaxxa")
	w.check(t, 4, 2)
	for range 2 {
		if !w.Flush(t.Context()) {
			t.Error("a flush failed")
		}
	}
	w.check(t, 0, 2, "dcb", "aa")
	if log := w.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, "letters are incomplete") || !strings.Contains(log, "lost=2") {
		t.Errorf("the log: %s", log)
	}
	w.Merge = nil
	w.add("bb")
	w.Flush(t.Context())
	w.check(t, 0, 2, "b")
}

// Rows that could not be written wait, before those that came since, with what came since of the same key. Rows that a failed write is
// done with do not, and neither does a write that panics lose any.
func TestBufferThatCannotWrite(t *testing.T) {
	t.Parallel()
	w := newWrites()
	w.fail = errors.New("the database is away")
	write := w.Write
	w.Write = func(ctx context.Context, rows []count) (int, error) {
		switch len(w.got) {
		case 0:
			w.add("ddxb") // d is beyond the bound, unlike b, whose row is being written
		case 2:
			w.got = append(w.got, "panic")
			panic("lost")
		}
		return write(ctx, rows)
	}
	w.add("abc")
	w.Most = 3
	if w.Flush(t.Context()) {
		t.Error("a flush that failed was right")
	}
	if waiting, lost := w.Waiting(); waiting != 3 || lost != 3 {
		t.Errorf("%d wait and %d are lost", waiting, lost)
	}
	w.done = 1
	w.Flush(t.Context())
	w.add("a")
	w.Flush(t.Context())
	w.fail = nil
	w.Flush(t.Context())
	w.check(t, 0, 3, "abc", "abbc", "panic", "bbca")
	if n := strings.Count(w.log.String(), "letters could not be written"); n != 3 {
		t.Errorf("%d failures are in the log: %s", n, &w.log)
	}
}

// Rows that are being written wait, too: a database that hangs would else have none waiting most of the time.
func TestWaitingWhileItIsWritten(t *testing.T) {
	t.Parallel()
	w := newWrites()
	w.Most = 9
	during := 0
	w.Write = func(context.Context, []count) (int, error) {
		w.add("ad") // another a, which has a row of its own by now, and a new letter
		during, _ = w.Waiting()
		return 0, errors.New("the database hangs")
	}
	w.add("abc")
	w.Flush(t.Context())
	if after, _ := w.Waiting(); during != 5 || after != 4 {
		t.Errorf("%d wait while a write hangs, want 5, and %d after it, want 4", during, after)
	}
}

// Admit is asked once for each key, and not about rows that are put back.
func TestBufferAdmits(t *testing.T) {
	t.Parallel()
	w := newWrites()
	var asked string
	w.Admit = func(c count) bool { asked += c.letter; return c.letter != "b" }
	w.fail = errors.New("the database is away")
	w.add("aabc")
	w.Flush(t.Context())
	w.Flush(t.Context())
	w.add("a")
	w.check(t, 2, 0, "aac", "aac")
	if asked != "abc" {
		t.Errorf("asked about %s", asked)
	}
}

// A buffer writes after its pause, again after a failure, and once more at the end. A write that hangs makes nobody wait, and neither
// outlasts its limit nor ends with the buffer's context.
func TestBufferRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWrites()
		w.Every, w.Limit = 2*time.Second, 3*time.Second
		began := time.Now()
		var at []time.Duration
		write := w.Write
		w.Write = func(ctx context.Context, rows []count) (int, error) {
			at = append(at, time.Since(began))
			if len(at) == 1 {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			if err := ctx.Err(); err != nil {
				t.Errorf("a write at the end: %v", err)
			}
			return write(ctx, rows)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); w.Run(ctx) }()
		<-time.After(time.Minute)
		began = time.Now()
		w.add("a")
		<-time.After(3 * time.Second) // while the write hangs
		w.add("b")
		<-time.After(time.Minute)
		w.add("c")
		stop()
		<-ended
		w.check(t, 0, 0, "ab", "c")
		want := []time.Duration{2 * time.Second, 2*time.Second + 3*time.Second + 5*time.Second, time.Minute + 3*time.Second}
		if diff := cmp.Diff(want, at); diff != "" {
			t.Errorf("times of writes (-want +got):\n%s", diff)
		}
	})
}

// Without a pause rows are written as they come.
func TestBufferWithoutPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWrites()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		w.add("a")
		go w.Run(ctx)
		synctest.Wait()
		w.add("b")
		synctest.Wait()
		w.check(t, 0, 0, "a", "b")
	})
}
