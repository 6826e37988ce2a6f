package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/postgres/migrate"
	"connect-svc/internal/local/authority"
	"connect-svc/internal/local/embedded"
)

type stage struct {
	settings
	dir        string
	statements map[string]string
	database   *embedded.Server
	conn       *pgx.Conn // for bulk work
	pool       *postgres.Pool
	oauth      *oauth.Server
	authority  *authority.Authority

	life    context.Context // of the processes
	end     context.CancelFunc
	running sync.WaitGroup

	tls, redis, plain       *service // with the limiter in PostgreSQL, in Redis, and as the first without TLS
	second                  *service // as the first, on the same database
	redisPID                string
	constant, plainConstant endpoint

	readers              map[audience][]connection
	revocable            []connection
	usedPairs, refreshed int
}

func newStage(settings settings) *stage {
	s := &stage{settings: settings}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

func (s *stage) open(ctx context.Context) (err error) {
	if s.statements, err = readStatements("sql"); err != nil {
		return err
	}
	if err := s.openDatabase(ctx); err != nil {
		return err
	}
	if err := s.connectReaders(ctx); err != nil {
		return err
	}
	copied, err := s.copyDatabase(ctx)
	if err != nil {
		return err
	}
	redis, err := s.startRedis(ctx)
	if err != nil {
		return err
	}
	if err := s.startConstant(ctx); err != nil {
		return err
	}
	if s.tls, err = s.serve(ctx, "tls", true); err != nil {
		return err
	}
	if s.redis, err = s.serve(ctx, "redis", true, "CONNECT_LIMITER_URL="+redis, "CONNECT_DATABASE_URL="+copied); err != nil {
		return err
	}
	s.plain, err = s.serve(ctx, "plain", false)
	return err
}

func (s *stage) openDatabase(ctx context.Context) error {
	if err := s.startDatabase(ctx); err != nil {
		return err
	}
	fmt.Printf("filling the database: %d clients, %d users, %d rows of steps\n", clients, users, max(s.StepsRows, users*days))
	return errors.Join(s.populate(ctx), s.move(ctx))
}

// startDatabase starts a PostgreSQL with the schema, and makes the keys of the services.
func (s *stage) startDatabase(ctx context.Context) (err error) {
	if s.dir, err = os.MkdirTemp("", "connect-bench-"); err != nil {
		return err
	}
	if s.authority, err = authority.Open(s.dir, time.Now()); err != nil {
		return err
	}
	if s.database, err = embedded.Start(ctx, embedded.Config{Ephemeral: true, Durable: true}); err != nil {
		return err
	}
	if _, err := migrate.Apply(ctx, s.database.URL(), migrate.Up); err != nil {
		return err
	}
	if s.conn, err = pgx.Connect(ctx, s.database.URL()); err != nil {
		return err
	}
	if err := credential.CreateKeyset(s.keysetFile()); err != nil {
		return err
	}
	return s.openPool(ctx)
}

// exec executes statements, one after the other.
func (s *stage) exec(ctx context.Context, statements ...string) error {
	for _, statement := range statements {
		if _, err := s.conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%.60s: %w", statement, err)
		}
	}
	return nil
}

func (s *stage) openPool(ctx context.Context) (err error) {
	keys, err := credential.LoadKeyring(s.keysetFile())
	if err != nil {
		return err
	}
	if s.pool, err = postgres.Open(ctx, s.database.URL(), postgres.WithMaxConns(preparers)); err != nil {
		return err
	}
	s.oauth = oauth.New(s.pool, keys, oauth.DefaultSettings)
	return nil
}

// copyDatabase copies the database for the service whose limiter is Redis, because all servers of a database use one store. It returns
// the copy's URL.
func (s *stage) copyDatabase(ctx context.Context) (string, error) {
	s.pool.Close() // PostgreSQL copies only what nobody else uses
	if _, err := s.conn.Exec(ctx, "create database copied template "+pgx.Identifier{s.conn.Config().Database}.Sanitize()); err != nil {
		return "", err
	}
	copied, err := url.Parse(s.database.URL())
	if err != nil {
		return "", err
	}
	copied.Path = "/copied"
	return copied.String(), s.openPool(ctx)
}

// audience is readers with many clients, or with one, of the service with a limiter.
type audience struct {
	limiter   string
	oneClient bool
}

func (s *stage) keysetFile() string { return filepath.Join(s.dir, "keyset.json") }

func (s *stage) connectReaders(ctx context.Context) (err error) {
	s.readers = map[audience][]connection{}
	for _, one := range []bool{false, true} {
		pairs := make([]pair, 2*readers)
		for i := range pairs {
			pairs[i] = pair{i, firstReader + i%many}
			if one {
				pairs[i].client = oneClient
			}
		}
		connected, err := s.connect(ctx, pairs)
		if err != nil {
			return err
		}
		for _, limiter := range []string{"postgres", "redis"} {
			s.readers[audience{limiter, one}] = slices.Clone(connected)
		}
	}
	s.revocable, err = s.connect(ctx, s.nextPairs())
	return err
}

func (s *stage) startRedis(ctx context.Context) (url string, err error) {
	program := "redis-server"
	if _, err := exec.LookPath(program); err != nil {
		program = "valkey-server"
	}
	addresses, err := freeAddresses(1)
	if err != nil {
		return "", err
	}
	port := addresses[0][strings.LastIndex(addresses[0], ":")+1:]
	cmd := exec.CommandContext(s.life, program, "--bind", "127.0.0.1", "--port", port, "--save", "", "--dir", s.dir, "--loglevel", "warning")
	if err := s.start(ctx, "redis-server", cmd, func() error { return dial(addresses[0]) }); err != nil {
		return "", err
	}
	s.redisPID = strconv.Itoa(cmd.Process.Pid)
	return "redis://" + addresses[0], nil
}

func (s *stage) startConstant(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	addresses, err := freeAddresses(2)
	if err != nil {
		return err
	}
	s.constant, s.plainConstant = endpoint{addresses[0], s.authority.Roots}, endpoint{addresses[1], nil}
	return s.start(ctx, "constant", exec.CommandContext(s.life, self, "constant", s.dir, addresses[0], addresses[1], s.database.URL()), func() error {
		return errors.Join(dial(addresses[0]), dial(addresses[1]))
	})
}

func (s *stage) close() {
	s.end()
	s.running.Wait()
	if s.pool != nil {
		s.pool.Close()
	}
	if s.conn != nil {
		_ = s.conn.Close(context.Background())
	}
	if s.database != nil {
		if err := s.database.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "connect-bench:", err)
		}
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}
