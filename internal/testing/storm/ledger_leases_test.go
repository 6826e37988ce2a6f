//go:build faults

package storm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"connect-svc/internal/local/embedded"
)

// limiterState is what the limiter's store has of a client.
type limiterState struct {
	Leases []struct {
		End   int64 `json:"end"`
		Count int   `json:"count"`
	} `json:"leases"`
}

// running counts the leases that have not ended.
func (l limiterState) running() (n int) {
	for _, lease := range l.Leases {
		if lease.End > time.Now().UnixMicro() {
			n += lease.Count
		}
	}
	return n
}

func (s *storm) limiterState(ctx context.Context, p *partner) (state limiterState, err error) {
	text := ""
	if s.redis == nil {
		text, err = query[string](ctx, s.database, "select coalesce((select state from rate_limits where client_id = $1), '')", p.id)
	} else {
		var conn redis.Conn
		if conn, err = redis.DialContext(ctx, "tcp", s.redis.Addr); err != nil {
			return state, err
		}
		defer conn.Close()
		if text, err = redis.String(redis.DoContext(conn, ctx, "GET", "connect:limit:"+p.id.String())); errors.Is(err, redis.ErrNil) {
			err = nil
		}
	}
	if err != nil || text == "" {
		return state, err
	}
	return state, json.Unmarshal([]byte(text), &state)
}

// watchLeases checks that the store has at most as many leases of a client as its policy allows.
func (s *storm) watchLeases(chance *rand.Rand) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if state, err := s.limiterState(ctx, s.hot); err == nil { // it is away otherwise
		if n := state.running(); n > hotPolicy.ConcurrentReads {
			s.Errorf("a client has %d leases, and may have %d", n, hotPolicy.ConcurrentReads)
		}
		s.leasesSeen.Add(1)
	}
	await(s.stop, between(chance, 0.1, 0.3))
}

// noLeases reports whether no read has a place. Those of servers that were killed end by themselves after 30 s.
func (s *storm) noLeases(ctx context.Context) (bool, error) {
	for _, p := range []*partner{s.steady, s.flighty, s.hot, s.narrow} {
		if state, err := s.limiterState(ctx, p); err != nil || state.running() > 0 {
			return false, err
		}
	}
	return true, nil
}

// checkLeases has reads of a client wait for a locked table while others of the same moment end: a place that was given back twice
// would let in one read too many.
func (s *storm) checkLeases(ctx context.Context) {
	s.Helper()
	c := s.newConnection(s.newUser(ctx), s.narrow)
	for tries := 0; tries < 10; tries++ {
		if c.connect(0); len(c.tokens) > 0 {
			break
		}
	}
	last, some := c.token(0)
	if !some {
		s.Fatal("nobody can connect after the storm")
	}
	readers := []*embedded.Server{s.database.server}
	if s.replica != nil {
		readers = append(readers, s.replica.server)
	}
	locks := func(granted bool) (n int) {
		for _, server := range readers {
			held, err := scan[int](ctx, server, "select count(*)::int from pg_locks where relation = 'daily_steps'::regclass and granted = $1", granted)
			if err != nil {
				s.Error(err)
			}
			n += held
		}
		return n
	}
	get := func(dataset string) { // past the summary: where the machine is busy, it waits for the table too long
		request := c.request(http.MethodGet, fmt.Sprintf("/connect-svc/v1/grants/%s/%s?from=%s&to=%s", c.grant, dataset, c.day, c.day), nil)
		request.Header.Set("Authorization", "Bearer "+last.access)
		if answer, err := s.api.Do(request); err == nil {
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
		}
	}
	most := 0
	for round := range 12 {
		held, release := make(chan struct{}), make(chan struct{})
		var holder, reads sync.WaitGroup
		holder.Go(func() {
			conn, err := s.database.connect(ctx)
			if err == nil {
				defer func() { _ = conn.Close(ctx) }()
				_, err = conn.Exec(ctx, "begin; lock table daily_steps in access exclusive mode")
			}
			close(held)
			if err != nil {
				s.Error(err)
				return
			}
			<-release
			_, _ = conn.Exec(ctx, "rollback")
		})
		<-held
		s.until("the table is locked everywhere", func(context.Context) (bool, error) { return locks(true) == len(readers), nil })
		for _, batch := range [][]string{{"daily-activity", "cycling-daily", "cycling-daily"}, {"daily-activity", "daily-activity", "daily-activity", "daily-activity"}} {
			var fast sync.WaitGroup
			for _, dataset := range batch {
				run := reads.Go
				if dataset == "cycling-daily" {
					run = fast.Go
				}
				run(func() { get(dataset) })
			}
			fast.Wait()
			for range 5 {
				most = max(most, locks(false))
				await(ctx, 30*time.Millisecond)
			}
		}
		close(release)
		holder.Wait()
		reads.Wait()
		if most > narrowPolicy.ConcurrentReads {
			s.Errorf("%d reads of a client at one time, which may have %d (round %d)", most, narrowPolicy.ConcurrentReads, round)
			break
		}
		s.until("the places are free", s.noLeases)
	}
	if most < narrowPolicy.ConcurrentReads {
		s.Errorf("%d reads of a client at one time, of %d that it may have", most, narrowPolicy.ConcurrentReads)
	}
	s.sum.fact("%d looks at the leases of a client, and never more than %d", s.leasesSeen.Load(), hotPolicy.ConcurrentReads)
}

// checkAdmissions: in no span of time was the hot client let in more often than its budget allows. If PostgreSQL crashes or Redis
// ends, the limiter loses its memory and the bucket is full again (ARCHITECTURE.md).
func (s *storm) checkAdmissions() {
	var losses []happening
	for _, f := range s.book.faults {
		kinds := []string{"PostgreSQL crashed and started", "failover to a replica", "failover beside a replica of another history", "disk full"}
		if s.redis != nil {
			kinds = []string{"Redis killed and started"}
		}
		if slices.Contains(kinds, f.kind) {
			losses = append(losses, f)
		}
	}
	admitted := s.book.admitted
	slices.SortFunc(admitted, func(a, b admission) int { return a.received.Compare(b.received) })
	for i, first := range admitted {
		within := 0
		for _, a := range admitted[max(0, i-50):] { // answers come within a time
			if a.sent.Before(first.sent) {
				continue
			}
			within++
			full := 1
			for _, f := range losses {
				if s.began.Add(f.end).After(first.sent) && s.began.Add(f.began).Before(a.received) {
					full++
				}
			}
			span := a.received.Sub(first.sent)
			if most := float64(full*hotPolicy.Burst) + float64(hotPolicy.RequestsPerMinute)/60*span.Seconds() + 1; float64(within) > most {
				s.Errorf("%d reads of a client were admitted in %s until %s, want at most %.1f", within, span, a.received.Sub(s.began), most)
				return
			}
		}
	}
	s.sum.fact("%d reads of a client with a budget of %d a minute were admitted", len(admitted), hotPolicy.RequestsPerMinute)
}
