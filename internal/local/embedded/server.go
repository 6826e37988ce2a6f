package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	superuser    = "connect"
	databaseName = "connect"

	duplicateDatabase = "42P04" // SQLSTATE
	readOnly          = "25006" // a replica, which has what its primary has

	startTimeout = 60 * time.Second
	stopTimeout  = 10 * time.Second
)

// Config says where the server lives.
type Config struct {
	// Dir is the server's own directory; beside it, Dir.lock is made. It is not used when Ephemeral.
	Dir string
	// Ephemeral puts the server in a temporary directory that Stop removes, and lets it lose what it was told when
	// the machine crashes, which is faster.
	Ephemeral bool
	// Durable makes an ephemeral server write as a kept one does: to a disk, which it waits for. It is for measurements.
	Durable bool
}

// Server is a PostgreSQL that runs.
type Server struct {
	place    *place
	port     int
	password string
	cmd      *exec.Cmd
	done     chan struct{}
	stop     func() error
}

// Start runs the server and returns when it accepts connections. The first start in a directory makes the cluster,
// which takes a second or so. The error is one line.
func Start(ctx context.Context, config Config) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	place, err := openPlace(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("embedded PostgreSQL: %w", err)
	}
	s, err := startIn(ctx, place)
	if err != nil {
		place.close()
		return nil, fmt.Errorf("embedded PostgreSQL: %w", err)
	}
	return s, nil
}

func startIn(ctx context.Context, place *place) (*Server, error) {
	if err := place.stopOrphan(ctx); err != nil {
		return nil, err
	}
	password, err := place.initialize(ctx)
	if err != nil {
		return nil, err
	}
	s := &Server{place: place, password: password}
	s.stop = sync.OnceValue(s.shutDown)
	// A port that was free a moment ago may be taken by the time that the server binds it.
	for attempt := 1; ; attempt++ {
		err := s.run(ctx)
		if err == nil {
			return s, nil
		}
		if attempt == 5 || !errors.Is(err, errPortTaken) {
			return nil, err
		}
	}
}

// URL is where the server is, with the password. The database in it is empty at first.
func (s *Server) URL() string { return s.url(databaseName) }

// Dir is where the server's files are: not always [Config.Dir], see the package comment.
func (s *Server) Dir() string { return s.place.dir }

// Done is closed when the server's process has ended, for whatever reason.
func (s *Server) Done() <-chan struct{} { return s.done }

// Stop ends the server, with all sessions, and waits until it is gone. A second Stop returns what the first did.
func (s *Server) Stop() error { return s.stop() }

func (s *Server) url(database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, s.password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// run starts the process and waits until it answers.
func (s *Server) run(ctx context.Context) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	s.port = port
	settings := []string{
		"listen_addresses=127.0.0.1", "port=" + strconv.Itoa(port),
		"unix_socket_directories=", // Debian's default is a directory that only its own account may write to
		"max_connections=400", "log_min_messages=warning", "logging_collector=off",
	}
	if s.place.ephemeral && !s.place.durable {
		settings = append(settings, "fsync=off", "synchronous_commit=off", "full_page_writes=off")
	}
	args := []string{"-D", s.place.data()}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	log, err := os.Create(s.place.log())
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	s.cmd = exec.Command(s.place.programs.postgres(), args...)
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.Dir = log, log, s.place.dir
	s.cmd.Env = s.place.env()
	s.cmd.SysProcAttr = s.place.account.attributes()
	// Its own process group: Ctrl-C at the terminal is for the program, which stops the server last.
	s.cmd.SysProcAttr.Setpgid = true
	endWithParent(s.cmd.SysProcAttr)

	s.done = make(chan struct{})
	started := make(chan error)
	go func() {
		// The kernel takes the end of the thread for the end of the parent: this one must last as long as the server.
		runtime.LockOSThread()
		err := s.cmd.Start()
		started <- err
		if err == nil {
			_ = s.cmd.Wait() // how it ended is in its log
			close(s.done)
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	if err := s.awaitReady(ctx); err != nil {
		_ = s.signalAndWait(syscall.SIGQUIT, stopTimeout)
		return err
	}
	return nil
}

var errPortTaken = errors.New("the port was taken")

// awaitReady connects until it works, makes the database if it is missing, or fails when the server ends.
func (s *Server) awaitReady(ctx context.Context) error {
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for {
		conn, err := pgx.Connect(ctx, s.url("postgres"))
		if err == nil {
			_, err = conn.Exec(ctx, "create database "+databaseName)
			_ = conn.Close(ctx)
			if refused := new(pgconn.PgError); errors.As(err, &refused) && (refused.Code == duplicateDatabase || refused.Code == readOnly) {
				err = nil
			}
			if err != nil {
				return fmt.Errorf("create the database: %w", err)
			}
			return nil
		}
		select {
		case <-s.done:
			line := causeIn(s.place.log())
			if strings.Contains(line, "could not create any TCP/IP sockets") {
				return errPortTaken
			}
			return fmt.Errorf("the server did not start: %s", line)
		case <-ctx.Done():
			return fmt.Errorf("the server did not answer in %s: %s", startTimeout, causeIn(s.place.log()))
		case <-retry.C:
		}
	}
}

func (s *Server) shutDown() error {
	defer s.place.close()
	// SIGINT is PostgreSQL's fast shutdown: sessions are cut off, data are written.
	if s.signalAndWait(syscall.SIGINT, stopTimeout) ||
		s.signalAndWait(syscall.SIGQUIT, stopTimeout) || s.signalAndWait(syscall.SIGKILL, stopTimeout) {
		return nil
	}
	return fmt.Errorf("embedded PostgreSQL: process %d does not end", s.cmd.Process.Pid)
}

// signalAndWait reports whether the server ended within the time.
func (s *Server) signalAndWait(signal os.Signal, within time.Duration) bool {
	_ = s.cmd.Process.Signal(signal) // fails only when it has ended
	select {
	case <-s.done:
		return true
	case <-time.After(within):
		return false
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

// causeIn is the line of the server's log that says why it did not start.
func causeIn(path string) string {
	text, _ := os.ReadFile(filepath.Clean(path))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, line := range lines {
		if strings.Contains(line, "FATAL") || strings.Contains(line, "PANIC") {
			return line
		}
	}
	return lines[len(lines)-1]
}
