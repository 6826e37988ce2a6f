//go:build faults

package storm

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/url"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/local/embedded"
)

// replica is the one that servers read from. It follows whichever server the database's way leads to.
type replica struct {
	of  *database
	way *link

	server *embedded.Server
	dir    string
}

// replicaLag is how old rows of a replica may be (docs/scaling.md).
const replicaLag = 5 * time.Second

func (s *storm) newReplica() *replica {
	s.Helper()
	r := &replica{of: s.database, way: newLink(s.T, "replica", "127.0.0.1:9")} // it has no address yet
	s.Cleanup(func() { _ = r.remove() })
	if err := r.build(s.Context()); err != nil {
		s.Fatal(err)
	}
	s.staleness = replicaLag
	return r
}

// build makes it anew from the present primary.
func (r *replica) build(ctx context.Context) error {
	if err := r.remove(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "connect-svc-storm-replica-") // not on the disk that is filled
	if err != nil {
		return err
	}
	r.dir = dir
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	r.of.mu.Lock()
	primary := r.of.server
	r.of.mu.Unlock()
	if r.server, err = embedded.StartReplica(ctx, primary, embedded.Config{Dir: dir + "/data"}); err != nil {
		return err
	}
	if err := follow(ctx, r.server, r.of.url(r.of.way)); err != nil {
		return err
	}
	return r.lead()
}

// rejoin waits until the replica follows a new primary. If it has got commits that the new primary lacks, it never does, and is built anew.
func (r *replica) rejoin(ctx context.Context) error {
	const within = 20 * time.Second // a replica asks every 5 s
	for began := time.Now(); time.Since(began) < within; await(ctx, 100*time.Millisecond) {
		follows, err := query[bool](ctx, r.of, "select exists (select from pg_stat_replication where state = 'streaming')")
		if err == nil && follows {
			return nil
		}
	}
	return r.build(ctx)
}

// lead has the way lead to where the server listens.
func (r *replica) lead() error {
	at, err := url.Parse(r.server.URL())
	if err != nil {
		return errors.New("the URL of the replica cannot be read")
	}
	return r.way.lead(at.Host)
}

func (r *replica) remove() error {
	if r.server == nil {
		return nil
	}
	err := r.server.StopAtOnce()
	r.server = nil
	return errors.Join(err, os.RemoveAll(r.dir))
}

// follow has a replica follow the server at a URL; an empty one: none.
func follow(ctx context.Context, server *embedded.Server, primary string) error {
	return on(ctx, server, "alter system set primary_conninfo = '"+primary+"'", "select pg_reload_conf()")
}

// on carries out statements at a server, whether it is the database or not.
func on(ctx context.Context, server *embedded.Server, statements ...string) error {
	conn, err := pgx.Connect(ctx, server.URL())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// replicaLate has it stand still until it must not be read, and longer.
func (s *storm) replicaLate(ctx context.Context, _ *rand.Rand, lasts time.Duration) error {
	if err := on(ctx, s.replica.server, "select pg_wal_replay_pause()"); err != nil {
		return err
	}
	await(ctx, replicaLag+lasts)
	return on(ctx, s.replica.server, "select pg_wal_replay_resume()")
}

// replicaDetached has it follow nobody.
func (s *storm) replicaDetached(ctx context.Context, _ *rand.Rand, lasts time.Duration) error {
	if err := follow(ctx, s.replica.server, ""); err != nil {
		return err
	}
	await(ctx, replicaLag+lasts)
	return follow(ctx, s.replica.server, s.database.url(s.database.way))
}

// replicaGone is a replica that ends and is made anew.
func (s *storm) replicaGone(ctx context.Context, _ *rand.Rand, lasts time.Duration) error {
	if err := s.replica.remove(); err != nil {
		return err
	}
	await(ctx, lasts)
	return s.replica.build(ctx)
}

// replicaStays has the heir of a primary lack its last commits, which nobody was told of, while the replica has them. When the heir has
// taken over, the replica is of another history.
func (s *storm) replicaStays(ctx context.Context, _ *rand.Rand, lasts time.Duration) error {
	err := s.database.failOver(ctx, lasts/2, func(heir *embedded.Server) error {
		if err := follow(ctx, heir, ""); err != nil {
			return err
		}
		await(ctx, lasts/2) // commits wait for the heir
		return follow(ctx, s.replica.server, "")
	})
	if err != nil {
		return err
	}
	await(ctx, replicaLag+lasts)
	return s.replica.build(ctx)
}
