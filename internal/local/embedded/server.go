// Package embedded runs a private PostgreSQL for the demo, the sandbox and the tests: one server, on loopback, in one directory, for
// as long as the program that started it.
//
// # Invariants
//
//   - The server does not outlive its program, even if the program is killed. On Linux the kernel stops the server together
//     with the thread that started it; elsewhere the next start stops it (TestKilledParent).
//   - One program uses a directory at a time: a file lock makes a second one fail with an error that says so (TestOneAtATime).
//   - Committed data survive a restart, unless the server is ephemeral (TestRestartFindsData, TestDurability).
//   - An ephemeral server leaves no files (TestEphemeralLeavesNothing, TestAbandonedEphemeralIsRemoved). A server on a copy leaves its
//     template for later ones, which is made once however many start at the same time (TestCopies).
//
// PostgreSQL refuses to run as root. If root starts it, it runs as the account postgres, or else nobody, in a directory that this
// account can enter: beneath /var/lib/connect-svc if the configured directory does not qualify.
//
// # Windows
//
// There PostgreSQL is stopped by pg_ctl, because Windows has no signals. It refuses to run as an administrator, and the package
// selects no other account.
//
// # Programs
//
// The server's programs are those in PATH, or else the newest installed ones (TestProgramsOfPath). Existing data get those of their major
// version. If there are none, the library embedded-postgres downloads them once.
//
// The package is not for production: one user owns everything, and nothing is tuned. PG… variables, except PGCONNECT_TIMEOUT, are
// removed from the environment of its program.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"connect-svc/internal/foundation/work"
	"github.com/jackc/pgx/v5"
)

const (
	name = "connect" // of the superuser and of the database

	startTimeout  = 3 * time.Minute // initdb takes a second, or more than a minute on a busy machine
	startAttempts = 5
)

// Config of a server.
type Config struct {
	// Dir is the server's own directory; Dir.lock is made beside it. It is not used when Ephemeral.
	Dir string
	// Ephemeral puts the server in a temporary directory that Stop removes. It is faster, and may lose committed data if the machine
	// crashes.
	Ephemeral bool
	// Durable makes an ephemeral server wait for the disk, as a permanent one does. It is for measurements.
	Durable bool
	Limits  work.Limits // of the time in which it stops
}

// Server is a running PostgreSQL.
type Server struct {
	place    *place
	port     int
	password string
	cmd      *exec.Cmd
	end      context.CancelFunc // begins the shutdown
	done     chan struct{}
	stop     func() error
}

// Start runs the server and returns when it accepts connections. The first start in a directory creates the cluster,
// which takes about a second. The error is one line.
func Start(ctx context.Context, config Config) (*Server, error) {
	return start(ctx, config, (*place).initialize)
}

// start runs a server on the data that fill creates. fill also returns the superuser's password.
func start(ctx context.Context, config Config, fill func(*place, context.Context) (string, error)) (*Server, error) {
	for _, variable := range os.Environ() { // of another database: the driver would mix them with the URL of this one
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "PG") && name != "PGCONNECT_TIMEOUT" {
			_ = os.Unsetenv(name)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s := &Server{place: &place{config: config}}
	s.stop = sync.OnceValue(s.shutDown)
	err := s.place.open(ctx)
	if err == nil {
		s.password, err = fill(s.place, ctx)
	}
	if err == nil {
		err = s.run(ctx)
		// A free port may be taken by the time that the server binds it.
		for attempt := 1; err != nil && attempt < startAttempts && ctx.Err() == nil; attempt++ {
			err = s.run(ctx)
		}
	}
	if err != nil {
		s.place.close()
		return nil, fmt.Errorf("embedded PostgreSQL: %w", err)
	}
	return s, nil
}

// URL returns the address of the database, with the password. A new database is empty.
func (s *Server) URL() string {
	return fmt.Sprintf("postgres://%s:%s@127.0.0.1:%d/%[1]s?sslmode=disable", name, s.password, s.port)
}

// Dir returns the directory of the server's files, which may differ from [Config.Dir]: see the package comment.
func (s *Server) Dir() string { return s.place.dir }

// Program returns the path of one of PostgreSQL's programs, of the server's version. Programs of clients may be missing.
func (s *Server) Program(name string) string { return s.place.programs.path(name) }

// Done is closed when the server's process has ended, for any reason.
func (s *Server) Done() <-chan struct{} { return s.done }

// Watch returns when ctx ends, or with an error when the server's process has ended by itself.
func (s *Server) Watch(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.done:
		return errors.New("the embedded PostgreSQL ended by itself")
	}
}

// Stop ends the server with all sessions, and waits for its end. A second Stop returns the result of the first.
func (s *Server) Stop() error { return s.stop() }

func (s *Server) shutDown() error {
	s.end()
	<-s.done
	s.place.close()
	if wasKilled(s.cmd.ProcessState) {
		return fmt.Errorf("embedded PostgreSQL: it did not end by itself: %s", s.cmd.ProcessState)
	}
	return nil
}

func (s *Server) run(ctx context.Context) (err error) {
	if s.port, err = freePort(); err != nil {
		return err
	}
	args := []string{
		"-D", s.place.data(), "-c", "listen_addresses=127.0.0.1", "-c", fmt.Sprint("port=", s.port),
		"-c", "unix_socket_directories=", // only the account postgres may write to Debian's default
		"-c", "max_connections=400", "-c", "log_min_messages=warning", "-c", "logging_collector=off",
	}
	if s.place.config.Ephemeral && !s.place.config.Durable {
		args = append(args, "-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off")
	}
	log, err := os.Create(s.place.log())
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	life, end := context.WithCancel(context.Background())
	s.end, s.done = end, make(chan struct{})
	s.cmd = s.place.command(life, "postgres", args...)
	s.cmd.Cancel = func() error { return s.place.shutDown(s.cmd.Process) }
	s.cmd.WaitDelay = s.place.config.Limits.OrDefault().Database // a server that takes longer is killed
	s.cmd.Stdout, s.cmd.Stderr = log, log
	// A process group of its own: Ctrl-C at the terminal is for this program, which stops the server last.
	ownGroup(s.cmd.SysProcAttr)
	endWithParent(s.cmd.SysProcAttr)

	started := make(chan error)
	go func() {
		// The kernel takes the end of the thread for the end of the parent: the thread must live as long as the server.
		runtime.LockOSThread()
		defer close(s.done)
		err := s.cmd.Start()
		started <- err
		if err == nil {
			_ = s.cmd.Wait() // the server's log has the reason
		}
	}()
	if err = <-started; err == nil {
		err = s.awaitReady(ctx)
	}
	if err != nil {
		end()
		<-s.done
	}
	return err
}

func (s *Server) awaitReady(ctx context.Context) error {
	for {
		conn, err := pgx.Connect(ctx, s.URL())
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.done:
			return errors.New("the server did not start: " + causeIn(s.place.log()))
		case <-ctx.Done():
			return fmt.Errorf("the server was not ready in %s: %s", startTimeout, causeIn(s.place.log()))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

var fatal = regexp.MustCompile(`(?m)^.*(FATAL|PANIC).*$`)

// causeIn returns the line of the server's log with the reason of a failed start.
func causeIn(path string) string {
	text, _ := os.ReadFile(path)
	if line := fatal.Find(text); line != nil {
		return string(line)
	}
	return oneLine(text)
}
