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

	"connect-svc/internal/foundation/work"
)

//go:noinline
func opens(secret [16]byte) error {
	if secret[0] == 0x5e {
		panic("no such key")
	}
	return errors.New("closed")
}

// An error is returned as it is, and a panic with the functions that led to it, but not what they were called with.
func TestTry(t *testing.T) {
	t.Parallel()
	if err := work.Try(func() error { return opens([16]byte{}) }); err == nil || err.Error() != "closed" {
		t.Errorf("an error became %v", err)
	}
	if err := work.Try(func() error { return nil }); err != nil {
		t.Error(err)
	}
	err := work.Try(func() error { return opens([16]byte{0x5e, 0xc7}) })
	panicked := new(work.Panic)
	if !errors.As(err, &panicked) {
		t.Fatalf("a panic became %v", err)
	}
	for _, part := range []string{"panic: no such key\n", "work_test.opens ", "panics_test.go:"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %q", part, err)
		}
	}
	if strings.Contains(err.Error(), "0x") {
		t.Errorf("the error has the values of arguments: %q", err)
	}
}

// Work that panics is logged and goes on; work that returns has ended.
func TestRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		ctx, stop := context.WithCancel(t.Context())
		began, runs := time.Now(), 0
		work.Restart(ctx, slog.New(slog.NewTextHandler(&log, nil)), "sweep", func(ctx context.Context) {
			if runs++; runs < 4 {
				panic("once more")
			}
			stop()
			<-ctx.Done()
		})
		if took := time.Since(began); runs != 4 || took != 3*time.Second {
			t.Errorf("%d runs in %v", runs, took)
		}
		if n := strings.Count(log.String(), "work=sweep"); n != 3 || !strings.Contains(log.String(), "once more") {
			t.Errorf("the log: %s", &log)
		}
		work.Restart(ctx, slog.New(slog.DiscardHandler), "ended", func(context.Context) { panic("at the end") })
	})
}
