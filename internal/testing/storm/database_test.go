//go:build faults

package storm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"connect-svc/internal/local/embedded"
	"connect-svc/internal/testing/pgtest"
)

// link is a way between two programs, which faults cut and hold up.
type link struct {
	name, address string

	mu    sync.Mutex
	proxy *toxiproxy.Proxy
	to    string
}

func newLink(t *testing.T, name, to string) *link {
	t.Helper()
	l := &link{name: name, to: to}
	for tries := 1; ; tries++ {
		// Linux gives higher ports to connections. One of them could take the port while the link is cut.
		l.address = fmt.Sprintf("127.0.0.1:%d", 16_000+rand.IntN(16_000))
		if err := l.open(); err == nil {
			break
		} else if tries == 100 {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = l.within(func(p *toxiproxy.Proxy) error { p.Stop(); return nil }) })
	return l
}

func (l *link) open() error {
	l.proxy = toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), l.name, l.address, l.to)
	return l.proxy.Start()
}

// stuck is when a proxy is given up: toxiproxy can lock itself up where a toxic comes or goes while a connection ends.
const stuck = 10 * time.Second

// within does something to the proxy, and puts another one in its place where that does not end. The connections of the one that
// was given up stay open, and nothing passes any more.
func (l *link) within(do func(*toxiproxy.Proxy) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	proxy, done := l.proxy, make(chan error, 1)
	go func() { done <- do(proxy) }()
	select {
	case err := <-done:
		return err
	case <-time.After(stuck):
	}
	go proxy.Stop() // gives its port back at once, and may never return
	go func() {
		if err := <-done; err == nil {
			proxy.Stop() // it was only slow, and has taken the port again
		}
	}()
	err := l.open()
	for tries := 0; err != nil && tries < 1200; tries++ {
		await(context.Background(), 50*time.Millisecond)
		err = l.open()
	}
	return err
}

// lead leads elsewhere from now on. Connections that there are end.
func (l *link) lead(to string) error {
	l.mu.Lock()
	l.to = to
	l.mu.Unlock()
	return l.within(func(proxy *toxiproxy.Proxy) error {
		return proxy.Update(&toxiproxy.Proxy{Listen: l.address, Upstream: to, Enabled: true})
	})
}

// target is where it leads.
func (l *link) target() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to
}

// toxic does something to what passes, in one direction, until it is taken back. Connections that it held up end then.
func (l *link) toxic(kind, stream string, attributes map[string]any) error {
	text, err := json.Marshal(map[string]any{"type": kind, "stream": stream, "attributes": attributes})
	if err != nil {
		return err
	}
	return l.within(func(proxy *toxiproxy.Proxy) error {
		_, err = proxy.Toxics.AddToxicJson(bytes.NewReader(text))
		return err
	})
}

func (l *link) heal() error {
	return l.within(func(proxy *toxiproxy.Proxy) error {
		proxy.Toxics.ResetToxics(context.Background())
		return nil
	})
}

// cut ends all connections and refuses new ones, for a time.
func (l *link) cut(ctx context.Context, lasts time.Duration) error {
	if err := l.within(func(proxy *toxiproxy.Proxy) error { proxy.Stop(); return nil }); err != nil {
		return err
	}
	await(ctx, lasts)
	return l.within(func(proxy *toxiproxy.Proxy) error {
		if err := proxy.Start(); !errors.Is(err, toxiproxy.ErrProxyAlreadyStarted) { // it leads elsewhere meanwhile
			return err
		}
		return nil
	})
}

// database is the PostgreSQL of a storm, wherever it is at present.
type database struct {
	cluster string // the URL of a cluster's coordinator; empty: a private server

	base string // of the directories, one for each server in turn
	full bool   // the base is a file system of its own, which can be filled
	way  *link  // leads to the present server
	// The directory of the server that was the primary before an asynchronous failover.
	former string

	mu     sync.Mutex
	server *embedded.Server
	number int
}

// smallDisk is how many bytes the file system of a storm's database has, if there can be one of its own.
const smallDisk = 1 << 30

func newDatabase(t *testing.T, disk int64) *database {
	t.Helper()
	base, err := os.MkdirTemp("", "connect-svc-storm-")
	if err != nil {
		t.Fatal(err)
	}
	d := &database{base: base}
	d.full = syscall.Mount("tmpfs", base, "tmpfs", 0, fmt.Sprintf("mode=755,size=%d", disk)) == nil // root alone may
	t.Cleanup(func() {
		if d.full {
			if err := syscall.Unmount(base, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		}
		_ = os.RemoveAll(base)
	})
	if err := os.Chmod(base, 0o755); err != nil { // the account of PostgreSQL must reach what is below
		t.Fatal(err)
	}
	if d.server, err = embedded.Start(t.Context(), embedded.Config{Dir: d.dir()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.server.Stop() })
	d.way = newLink(t, "postgres", d.address())
	return d
}

func (d *database) dir() string { return filepath.Join(d.base, fmt.Sprint(d.number)) }

// present is the URL of the present server.
func (d *database) present() *url.URL {
	text := d.cluster
	if text == "" {
		text = d.server.URL()
	}
	at, err := url.Parse(text)
	if err != nil {
		panic("the URL of the database cannot be read")
	}
	return at
}

func (d *database) address() string { return d.present().Host }

// url is the database's through a link.
func (d *database) url(by *link) string {
	at := d.present()
	at.Host = by.address
	return at.String()
}

// connect is a session at the present server, past all links.
func (d *database) connect(ctx context.Context) (*pgx.Conn, error) {
	d.mu.Lock()
	at := d.present().String()
	d.mu.Unlock()
	return pgx.Connect(ctx, at)
}

// exec carries out a statement in a session of its own.
func (d *database) exec(ctx context.Context, sql string, args ...any) error {
	conn, err := d.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, sql, args...)
	return err
}

// query reads the one value that the statement finds.
func query[T any](ctx context.Context, d *database, sql string, args ...any) (value T, err error) {
	conn, err := d.connect(ctx)
	if err != nil {
		return value, err
	}
	defer func() { _ = conn.Close(ctx) }()
	err = conn.QueryRow(ctx, sql, args...).Scan(&value)
	return value, err
}

// restart stops the server, in an orderly way or as a crash does, and starts it after a while.
func (d *database) restart(ctx context.Context, stop func(*embedded.Server) error, down time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := stop(d.server); err != nil {
		return err
	}
	await(ctx, down)
	return d.start()
}

// newCluster is the database of a Citus cluster, which CONNECT_TEST_CITUS_URLS names. No table is there.
func newCluster(t *testing.T) *database {
	t.Helper()
	d := &database{cluster: pgtest.NewCluster(t, false).URLs[0]}
	d.way = newLink(t, "coordinator", d.address())
	return d
}

// start is for a server that has ended.
func (d *database) start() (err error) {
	if d.server, err = embedded.Start(context.Background(), embedded.Config{Dir: d.dir()}); err != nil {
		return err
	}
	return d.way.lead(d.address())
}

// revive starts the server if it has ended by itself, as it may where its disk is full.
func (d *database) revive() error {
	if d.cluster != "" {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.server.Done():
		_ = d.server.Stop() // gives back its directory
		return d.start()
	default:
		return nil
	}
}

// failOver makes a replica, has all commits wait for it, and lets it take over from a primary that is gone at once. last is what happens
// before that; nil: nothing.
func (d *database) failOver(ctx context.Context, meanwhile time.Duration, last func(heir *embedded.Server) error) error {
	d.mu.Lock()
	primary, former := d.server, d.dir()
	next := filepath.Join(d.base, fmt.Sprint(d.number+1))
	d.mu.Unlock()
	replica, err := embedded.StartReplica(ctx, primary, embedded.Config{Dir: next})
	if err != nil {
		return err
	}
	if err := follow(ctx, replica, primary.URL()+"&application_name=heir"); err != nil {
		return errors.Join(err, replica.Stop())
	}
	for _, statement := range []string{"alter system set synchronous_standby_names = 'heir'", "select pg_reload_conf()"} {
		if err := d.exec(ctx, statement); err != nil {
			return errors.Join(err, replica.Stop())
		}
	}
	for synchronous := false; !synchronous; await(ctx, 50*time.Millisecond) {
		if synchronous, err = query[bool](ctx, d, "select exists (select from pg_stat_replication where sync_state = 'sync')"); err != nil {
			return errors.Join(err, replica.Stop())
		}
	}
	await(ctx, time.Second+meanwhile) // commits of before have come, and more
	if last != nil {
		if err := last(replica); err != nil {
			return errors.Join(err, replica.Stop())
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := primary.StopAtOnce(); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, replica.URL())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, "select pg_promote()"); err != nil {
		return err
	}
	d.server, d.number = replica, d.number+1
	return errors.Join(os.RemoveAll(former), d.way.lead(d.address()))
}

// fill leaves no byte of the disk, until the function that it returns is called.
func (d *database) fill() (undo func() error, err error) {
	path := filepath.Join(d.base, "filler")
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var disk syscall.Statfs_t
	for size := int64(0); ; {
		if err := syscall.Statfs(d.base, &disk); err != nil {
			return nil, err
		}
		free := int64(disk.Bavail) * disk.Bsize
		if free == 0 {
			break
		}
		if err := syscall.Fallocate(int(file.Fd()), 0, size, free); err == nil {
			size += free
		} else if !errors.Is(err, syscall.ENOSPC) { // PostgreSQL was faster
			return nil, err
		}
	}
	return func() error { return os.Remove(path) }, nil
}

// await returns when the time is over, or ctx ends.
func await(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
