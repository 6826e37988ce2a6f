package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/credential"
	"connect-svc/internal/local/embedded"
	"connect-svc/internal/oauth"
	"connect-svc/internal/postgres"
)

// stage is everything that runs.
type stage struct {
	settings       settings
	dir            string
	pgbenchProgram string
	statements     statements
	database       *embedded.Server
	conn           *pgx.Conn // for bulk work
	pool           *postgres.Pool
	oauth          *oauth.Server
	keysetFile     string
	certificate    []byte // PEM
	certFile       string
	keyFile        string
	processes      []*process

	secure, redis, plain *service
	constants            map[int]constant // by size

	manyDaily, oneDaily, manyPages, onePages, revoked *purse
	usedPairs, refreshed                              int
}

// open starts everything but the constants.
func (s *stage) open(ctx context.Context) (err error) {
	if s.statements, err = readStatements(s.settings.statements); err != nil {
		return err
	}
	if s.pgbenchProgram, err = findPgbench(); err != nil {
		return err
	}
	if err := s.openDatabase(ctx); err != nil {
		return err
	}
	if err := s.fillPurses(ctx); err != nil {
		return err
	}
	return s.startServices(ctx)
}

// openDatabase starts a PostgreSQL, and fills it.
func (s *stage) openDatabase(ctx context.Context) (err error) {
	if s.dir, err = os.MkdirTemp("", "connect-bench-"); err != nil {
		return err
	}
	if s.database, err = embedded.Start(ctx, embedded.Config{Ephemeral: true, Durable: true}); err != nil {
		return err
	}
	if _, err := postgres.Migrate(ctx, s.database.URL(), postgres.Up); err != nil {
		return err
	}
	if s.conn, err = pgx.Connect(ctx, s.database.URL()); err != nil {
		return err
	}
	if s.pool, err = postgres.Open(ctx, s.database.URL(), postgres.WithMaxConns(preparers)); err != nil {
		return err
	}
	if err := s.makeKeys(); err != nil {
		return err
	}
	fmt.Printf("filling the database: %d clients, %d users, %d rows of steps\n", clients, users, max(s.settings.stepsRows, users*days))
	return s.populate(ctx)
}

func (s *stage) makeKeys() error {
	s.keysetFile = filepath.Join(s.dir, "keyset.json")
	if err := credential.CreateKeyset(s.keysetFile); err != nil {
		return err
	}
	keys, err := credential.LoadKeyring(s.keysetFile)
	if err != nil {
		return err
	}
	s.oauth = oauth.New(s.pool, keys, oauth.DefaultSettings)

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	s.certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	s.certFile, s.keyFile = filepath.Join(s.dir, "cert.pem"), filepath.Join(s.dir, "key.pem")
	return errors.Join(os.WriteFile(s.certFile, s.certificate, 0o600),
		os.WriteFile(s.keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600))
}

func (s *stage) fillPurses(ctx context.Context) (err error) {
	pairs := func(n int, pairOf func(int) pair) []pair {
		list := make([]pair, n)
		for i := range list {
			list[i] = pairOf(i)
		}
		return list
	}
	for _, p := range []struct {
		purse **purse
		pairs []pair
	}{
		{&s.manyDaily, pairs(readers, func(n int) pair { return pair{n, firstReader + n%many} })},
		{&s.oneDaily, pairs(readers, func(n int) pair { return pair{n, oneClient} })},
		{&s.manyPages, pairs(readers, func(n int) pair { return pair{readers + n, firstReader + n%many} })},
		{&s.onePages, pairs(readers, func(n int) pair { return pair{readers + n, oneClient} })},
		{&s.revoked, s.nextPairs(2500 * s.settings.seconds)},
	} {
		if *p.purse, err = s.newPurse(ctx, p.pairs); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) startServices(ctx context.Context) (err error) {
	redis, err := s.startRedis()
	if err != nil {
		return err
	}
	secure := s.withTLS()
	for _, instance := range []struct {
		service **service
		name    string
		secure  bool
		environ []string
	}{
		{&s.secure, "tls", true, secure},
		{&s.redis, "redis", true, append([]string{"CONNECT_LIMITER_URL=" + redis}, secure...)},
		{&s.plain, "plain", false, nil},
	} {
		var profiles string
		if s.settings.profiles != "" {
			if profiles, err = freeAddress(); err != nil {
				return err
			}
			instance.environ = append(instance.environ, profileVariable+"="+profiles)
		}
		if *instance.service, err = s.serve(ctx, instance.name, instance.environ...); err != nil {
			return err
		}
		(*instance.service).secure = instance.secure
		(*instance.service).profiles = profiles
		s.processes = append(s.processes, (*instance.service).process)
	}
	return nil
}

func (s *stage) withTLS() []string {
	return []string{"CONNECT_TLS_CERT=" + s.certFile, "CONNECT_TLS_KEY=" + s.keyFile}
}

// startRedis starts a Redis with nothing on disk.
func (s *stage) startRedis() (url string, err error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		if program, err = exec.LookPath("valkey-server"); err != nil {
			return "", errors.New("redis-server is not installed: make tools installs it, or says what to install")
		}
	}
	address, err := freeAddress()
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	p, err := start(exec.Command(program, "--bind", "127.0.0.1", "--port", port, "--save", "", "--dir", s.dir, "--loglevel", "warning"))
	if err != nil {
		return "", err
	}
	s.processes = append(s.processes, p)
	for {
		if conn, err := net.Dial("tcp", address); err == nil {
			_ = conn.Close()
			return "redis://" + address, nil
		}
		select {
		case <-p.done:
			return "", errors.New("redis-server ended")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// constant is a net/http server that answers with so many bytes.
func (s *stage) constant(size int) (constant, error) {
	if found, started := s.constants[size]; started {
		return found, nil
	}
	self, err := os.Executable()
	if err != nil {
		return constant{}, err
	}
	key, err := os.ReadFile(s.keyFile)
	if err != nil {
		return constant{}, err
	}
	cmd := exec.Command(self, "constant")
	in, err := cmd.StdinPipe()
	if err != nil {
		return constant{}, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return constant{}, err
	}
	p, err := start(cmd)
	if err != nil {
		return constant{}, err
	}
	s.processes = append(s.processes, p)
	if err := json.NewEncoder(in).Encode(constant{Size: size, Certificate: s.certificate, Key: key}); err != nil {
		return constant{}, err
	}
	var started constant
	if err := json.NewDecoder(out).Decode(&started); err != nil {
		return constant{}, fmt.Errorf("the server of constants: %w", err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	s.constants[size] = started
	return started, nil
}

// close ends everything and removes it.
func (s *stage) close() {
	for _, p := range s.processes {
		p.stop()
	}
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
