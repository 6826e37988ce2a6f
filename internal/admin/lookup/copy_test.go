package lookup_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/admin/lookup"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// withRides is a user with 2,500 rides and as many days of steps.
func withRides(t *testing.T, db *pgtest.DB) uuid.UUID {
	t.Helper()
	user := db.User(t).ID
	db.Exec(t, `insert into daily_steps select $1, '2010-01-01'::date + n, 7 from generate_series(1, 2500) n`, user)
	db.Exec(t, `insert into cycling_activities (user_id, start_time, distance_meters, source_id)
		select $1, '2010-01-01'::timestamp + n * interval '1 day', 7, 'ride-' || n from generate_series(1, 2500) n`, user)
	return user
}

// partsOfRides counts the statements that read rides.
type partsOfRides struct{ atomic.Int32 }

func (p *partsOfRides) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, "name: CopyCyclingActivities") {
		p.Add(1)
	}
	return ctx
}

func (*partsOfRides) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// writer calls itself before each write.
type writer func(part []byte) error

func (w writer) Write(part []byte) (int, error) {
	if err := w(part); err != nil {
		return 0, err
	}
	return len(part), nil
}

func TestCopyIsOfOneInstant(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	user := withRides(t, db)
	var read partsOfRides
	pool, err := postgres.Open(t.Context(), db.URL, postgres.WithTracer(&read), postgres.WithLimits(wait.Patient))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var text bytes.Buffer
	between := map[int32]bool{} // parts of rides that were read at some write
	if err := lookup.New(pool).WriteCopy(t.Context(), writer(func(part []byte) error {
		if text.Len() == 0 {
			db.Exec(t, "update daily_steps set steps = 8 where user_id = $1", user)
			db.Exec(t, "delete from cycling_activities where user_id = $1", user)
		}
		between[read.Load()] = true
		text.Write(part)
		return nil
	}), user, nil); err != nil {
		t.Fatal(err)
	}
	var stored struct {
		Version int
		Steps   []struct{ Steps int } `json:"daily_steps"`
		Rides   []struct {
			SourceID string `json:"source_id"`
		} `json:"cycling_activities"`
	}
	if err := json.Unmarshal(text.Bytes(), &stored); err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, ride := range stored.Rides {
		ids[ride.SourceID] = true
	}
	changed := 0
	for _, day := range stored.Steps {
		if day.Steps != 7 {
			changed++
		}
	}
	if len(stored.Rides) != 2500 || len(ids) != 2500 || len(stored.Steps) != 2500 || changed > 0 {
		t.Errorf("%d rides, of which %d differ, and %d days, of which %d have changed meanwhile; want 2,500 of each", len(stored.Rides), len(ids), len(stored.Steps), changed)
	}
	if !between[0] || !between[1] || !between[2] || !between[3] {
		t.Errorf("something was written when %v parts of the rides were read, want all of 0 to 3", between)
	}
}

func TestCopyOfNobody(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	var text bytes.Buffer
	if err := lookup.New(db.Pool).WriteCopy(t.Context(), &text, uuid.New(), nil); !errors.Is(err, refusal.ErrUserNotFound) || text.Len() > 0 {
		t.Errorf("%v, and %q", err, &text)
	}
}

// Two readers that take nothing keep a third one out, who gets a connection when one of them has gone.
func TestSlowCopies(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	user := withRides(t, db)
	finder := lookup.New(db.Pool)
	reached, leave, ended := make(chan struct{}, 2), make(chan struct{}), make(chan error, 2)
	left := errors.New("left")
	for range 2 {
		go func() {
			ended <- finder.WriteCopy(t.Context(), writer(func([]byte) error {
				reached <- struct{}{}
				<-leave
				return left
			}), user, nil)
		}()
	}
	wait.For(t, "a copy is being read", reached)
	wait.For(t, "another copy is being read", reached)
	limited, cancel := work.Within(t.Context(), work.Caller{Kind: work.Users}, 50*time.Millisecond)
	defer cancel()
	if err := finder.WriteCopy(limited, io.Discard, user, nil); !errors.Is(err, work.ErrLate) {
		t.Errorf("a third copy: %v", err)
	}
	close(leave)
	for range 2 {
		if err := wait.For(t, "the end of a copy", ended); !errors.Is(err, left) {
			t.Errorf("a copy whose reader has left: %v", err)
		}
	}
	if err := finder.WriteCopy(t.Context(), io.Discard, user, nil); err != nil {
		t.Errorf("the next copy: %v", err)
	}
}
