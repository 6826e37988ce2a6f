package embedded

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// While a server stands still nobody gets an answer, neither who is connected nor who comes; then both do.
func TestPause(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Ephemeral: true})
	conn, err := pgx.Connect(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Continue() })
	answered := make(chan error, 2)
	go func() {
		_, err := conn.Exec(t.Context(), "select")
		answered <- err
	}()
	go func() {
		fresh, err := pgx.Connect(t.Context(), s.URL())
		if err == nil {
			err = fresh.Close(t.Context())
		}
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Errorf("an answer while it stands still: %v", err)
		answered <- err
	case <-time.After(200 * time.Millisecond):
	}
	if err := s.Continue(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-answered; err != nil {
			t.Error(err)
		}
	}
}
