//go:build faults

package storm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/local/embedded"
)

// fault happens, lasts, and is over when it returns.
type fault struct {
	kind string
	do   func(ctx context.Context, chance *rand.Rand, lasts time.Duration) error
}

// between is a time from a to b seconds.
func between(chance *rand.Rand, a, b float64) time.Duration {
	return time.Duration((a + (b-a)*chance.Float64()) * float64(time.Second))
}

// processFaults hits servers, PostgreSQL and Redis, one after the other.
func (s *storm) processFaults(chance *rand.Rand) {
	faults := []fault{
		{"SIGKILL of a server", s.killServer},
		{"SIGTERM of a server", s.terminateServer},
		{"SIGSTOP of a server", s.stopServer},
		{"all servers killed", s.killAll},
		{"PostgreSQL stopped (fast) and started", s.restartFast},
		{"PostgreSQL crashed and started", s.crash},
		{"PostgreSQL stands still", s.pausePostgres},
		{"all backends terminated", s.terminateBackends},
		{"rows of connections locked", s.lockRows},
		{"a table locked", s.lockTable},
		{"all connections of PostgreSQL taken", s.exhaust},
		{"failover to a replica", s.failOver},
		{"the database's clock jumps, and is right again", s.jump},
		{"a flood of connections", s.flood},
	}
	if s.replica != nil {
		faults = append(faults, fault{"the replica is late", s.replicaLate}, fault{"the replica follows nobody", s.replicaDetached},
			fault{"the replica is gone, and made anew", s.replicaGone}, fault{"failover beside a replica of another history", s.replicaStays})
	}
	if s.database.full {
		faults = append(faults, fault{"disk full", s.fillDisk})
	} else {
		s.sum.fact("no full disk: a small file system needs root and the right to mount one")
	}
	if s.redis != nil {
		faults = append(faults, fault{"Redis killed and started", s.restartRedis}, fault{"Redis stands still", s.pauseRedis})
	}
	s.inTurn(faults, chance, 1, 4, 1, 4)
}

// inTurn does each of the faults in an order of chance, and begins anew, until the storm is over.
func (s *storm) inTurn(faults []fault, chance *rand.Rand, shortest, longest, shortestPause, longestPause float64) {
	for s.faulty.Err() == nil {
		for _, n := range chance.Perm(len(faults)) {
			lasts := between(chance, shortest/s.pace, longest/s.pace)
			pause := between(chance, shortestPause/s.pace, longestPause/s.pace)
			if s.faulty.Err() != nil {
				return
			}
			began := time.Since(s.began)
			if err := faults[n].do(s.Context(), chance, lasts); err != nil {
				s.Errorf("%s, at %s: %v", faults[n].kind, began.Round(time.Millisecond), err)
				return
			}
			s.sum.fault(faults[n].kind)
			s.book.happened(faults[n].kind, began, time.Since(s.began))
			await(s.faulty, pause)
		}
	}
}

func (s *storm) any(chance *rand.Rand) *server { return s.servers[chance.IntN(len(s.servers))] }

func (s *storm) killServer(ctx context.Context, chance *rand.Rand, lasts time.Duration) error {
	one := s.any(chance)
	if _, err := one.end(os.Kill); err != nil {
		return err
	}
	await(ctx, lasts)
	return one.start(ctx)
}

// terminateServer holds a server to what it promises: it ends by itself, with status 0, within 15 s.
func (s *storm) terminateServer(ctx context.Context, chance *rand.Rand, lasts time.Duration) error {
	one, began := s.any(chance), time.Now()
	state, err := one.end(syscall.SIGTERM)
	if err != nil {
		return err
	}
	if took := time.Since(began); !state.Success() || took > 15*time.Second {
		return fmt.Errorf("a server asked to end: %s after %s\n%s", state, took, one.tail(5))
	}
	await(ctx, lasts/2)
	return one.start(ctx)
}

func (s *storm) stopServer(ctx context.Context, chance *rand.Rand, lasts time.Duration) error {
	one := s.any(chance)
	if err := one.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	await(ctx, 2*lasts)
	return one.signal(syscall.SIGCONT)
}

func (s *storm) killAll(ctx context.Context, _ *rand.Rand, lasts time.Duration) error {
	for _, one := range s.servers {
		if _, err := one.end(os.Kill); err != nil {
			return err
		}
	}
	await(ctx, lasts/2)
	for _, one := range s.servers {
		if err := one.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *storm) restartFast(ctx context.Context, _ *rand.Rand, lasts time.Duration) error {
	return s.database.restart(ctx, (*embedded.Server).Stop, lasts)
}

func (s *storm) crash(ctx context.Context, _ *rand.Rand, lasts time.Duration) error {
	return s.database.restart(ctx, (*embedded.Server).StopAtOnce, lasts)
}

func (s *storm) pausePostgres(ctx context.Context, _ *rand.Rand, lasts time.Duration) error {
	s.database.mu.Lock()
	defer s.database.mu.Unlock()
	if err := s.database.server.Pause(); err != nil {
		return err
	}
	await(ctx, lasts)
	return s.database.server.Continue()
}

func (s *storm) terminateBackends(ctx context.Context, _ *rand.Rand, lasts time.Duration) error {
	for end := time.Now().Add(lasts / 2); time.Now().Before(end); await(ctx, 300*time.Millisecond) {
		if err := s.database.exec(ctx, `select pg_terminate_backend(pid) from pg_stat_activity
			where application_name = 'connect-svc' and pid <> pg_backend_pid()`); err != nil {
			return err
		}
	}
	return nil
}

// hold locks something from outside.
func (s *storm) hold(ctx context.Context, lasts time.Duration, statement string) error {
	conn, err := s.database.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, statement); err != nil {
		return err
	}
	await(ctx, lasts)
	return tx.Rollback(ctx)
}

func (s *storm) lockRows(ctx context.Context, _ *rand.Rand, lasts time.Duration) error {
	return s.hold(ctx, 2*lasts, "select from connections where state = 'authorized' order by authorized_at desc limit 6 for update")
}

func (s *storm) lockTable(ctx context.Context, chance *rand.Rand, lasts time.Duration) error {
	tables := []string{"daily_steps", "connections", "users", "webhook_queue", "authorization_requests", "rate_limits", "clients"}
	return s.hold(ctx, lasts, "lock table "+tables[chance.IntN(len(tables))]+" in access exclusive mode")
}

// exhaust takes every connection that PostgreSQL has, the service's as well.
func (s *storm) exhaust(ctx context.Context, _ *rand.Rand, lasts time.Duration) (err error) {
	var taken []*pgx.Conn
	defer func() {
		for _, conn := range taken {
			_ = conn.Close(ctx)
		}
	}()
	take := func() error {
		for {
			conn, err := s.database.connect(ctx)
			if err != nil {
				if strings.Contains(err.Error(), "53300") {
					return nil
				}
				return err
			}
			taken = append(taken, conn)
		}
	}
	if err := take(); err != nil {
		return err
	}
	if _, err := taken[0].Exec(ctx, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'connect-svc'"); err != nil {
		return err
	}
	if err := take(); err != nil {
		return err
	}
	await(ctx, lasts)
	return nil
}

func (s *storm) failOver(ctx context.Context, _ *rand.Rand, lasts time.Duration) error {
	if err := s.database.failOver(ctx, lasts/2, nil); err != nil || s.replica == nil {
		return err
	}
	return s.replica.rejoin(ctx)
}

// fillDisk leaves PostgreSQL no room. It may end by itself, or crash and recover.
func (s *storm) fillDisk(ctx context.Context, _ *rand.Rand, lasts time.Duration) error {
	undo, err := s.database.fill()
	if err != nil {
		return err
	}
	await(ctx, 2*lasts)
	if err := undo(); err != nil {
		return err
	}
	return s.database.ready(ctx)
}

func (s *storm) restartRedis(ctx context.Context, _ *rand.Rand, lasts time.Duration) error {
	s.redis.Kill()
	await(ctx, lasts/2)
	s.redis.Restart(s.T)
	return nil
}

func (s *storm) pauseRedis(ctx context.Context, _ *rand.Rand, lasts time.Duration) error {
	s.redis.Pause(s.T)
	await(ctx, lasts)
	s.redis.Continue(s.T)
	return nil
}

// networkFaults hit one way at a time, between clients and servers or behind a server.
func (s *storm) networkFaults(chance *rand.Rand) {
	type attributes = map[string]any
	var faults []fault
	toxic := func(name, kind, stream string, with attributes) {
		faults = append(faults, fault{name, func(ctx context.Context, chance *rand.Rand, lasts time.Duration) error {
			way := s.links[chance.IntN(len(s.links))]
			err := way.toxic(kind, stream, with)
			await(ctx, lasts)
			return errors.Join(err, way.heal())
		}})
	}
	toxic("requests vanish", "timeout", "upstream", attributes{"timeout": 0})
	toxic("answers vanish", "timeout", "downstream", attributes{"timeout": 0})
	toxic("answers cut off before their first byte", "limit_data", "downstream", attributes{"bytes": 0})
	toxic("answers cut off in the middle", "limit_data", "downstream", attributes{"bytes": 700})
	toxic("requests cut off in the middle", "limit_data", "upstream", attributes{"bytes": 900})
	toxic("connections reset", "reset_peer", "downstream", attributes{"timeout": 50})
	toxic("requests late", "latency", "upstream", attributes{"latency": 900, "jitter": 600})
	toxic("answers late", "latency", "downstream", attributes{"latency": 2500, "jitter": 2000})
	toxic("answers in slices", "slicer", "downstream", attributes{"average_size": 64, "size_variation": 32, "delay": 2000})
	faults = append(faults, fault{"connections cut, and refused", func(ctx context.Context, chance *rand.Rand, lasts time.Duration) error {
		return s.links[chance.IntN(len(s.links))].cut(ctx, lasts)
	}})
	s.inTurn(faults, chance, 0.3, 3, 0.3, 3)
}

// ready returns when PostgreSQL answers, after it was started if that was needed.
func (d *database) ready(ctx context.Context) error {
	var last error
	for tries := 0; tries < 300; tries++ {
		if err := d.revive(); err != nil {
			last = err
		} else if last = d.exec(ctx, "create temporary table room as select 1"); last == nil {
			return nil
		}
		await(ctx, 200*time.Millisecond)
	}
	return errors.Join(errors.New("PostgreSQL does not come back"), last)
}
