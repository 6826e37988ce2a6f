//go:build faults

package storm

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/testing/pgbouncertest"
	"connect-svc/internal/testing/process"
	"connect-svc/internal/testing/redistest"
)

const (
	baseURL       = "https://connect.example.com"
	operatorToken = "operator-token-of-the-storm-0123456789"
	servers       = 3
)

// slack is how much longer than its load a storm may last in all. Each step has bounds of its own, but on a busy machine they add up.
const slack = 12 * time.Minute

// storm is everything that runs.
type storm struct {
	*testing.T
	whole context.Context // ends with the time that there is for all of it

	seed  uint64
	pace  float64 // by which the times of faults and between them are divided
	began time.Time
	dir   string

	programs programs // that commands are given to
	database *database
	redis    *redistest.Server // nil: the limiter is in PostgreSQL
	pooled   bool              // by PgBouncer
	replica  *replica          // that servers read; nil: none
	links    []*link           // that the network's faults choose from
	servers  []*server
	env      []string
	mail     *mailbox
	receiver *receiver
	api      *http.Client // at any server, held to the contract
	operator *http.Client
	plain    http.RoundTripper

	steady, flighty, hot *partner // flighty is disabled now and then; hot asks too much
	turning, narrow      *partner // the secret of turning is replaced now and then; narrow reads at the bound of its places
	// The webhook of paused is paused now and then, engineers of guided come and go, and one of asking requests changes. The program of
	// release 1.0.0 knows none of that: nil.
	paused, guided, asking *partner
	walks                  []*walk
	feeds                  []*feed
	ghosts                 []uuid.UUID // users of whom all that is attempted is refused, or rolled back

	stop   context.Context // ends with the load
	faulty context.Context // ends with the faults
	sum    *summary
	book   *book

	audit      *auditLedger
	codes      *codeLedger
	secrets    *secretLedger
	pauses     *pauseLedger
	portal     *portalLedger
	changes    *changeLedger
	receipts   *receiptLedger
	leasesSeen atomic.Int64
	before     int           // users that were there before the load
	staleness  time.Duration // of what is read at most
}

// partner is a client with its secret.
type partner struct {
	id     uuid.UUID
	secret string
}

const callback = "https://partner.example/callback"

func setting(t *testing.T, name, otherwise string) string {
	t.Helper()
	if text := os.Getenv(name); text != "" {
		return text
	}
	return otherwise
}

// TestStorm: see the package's comment. Of eight seeds in a row each has another limiter, another way to the database, or a replica or none.
func TestStorm(t *testing.T) {
	seed, err := strconv.ParseUint(setting(t, "CONNECT_TEST_FAULTS_SEED", fmt.Sprint(time.Now().UnixNano()%1_000_000)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	lasts, err := time.ParseDuration(setting(t, "CONNECT_TEST_FAULTS_FOR", "3m"))
	if err != nil {
		t.Fatal(err)
	}
	pace, err := strconv.ParseFloat(setting(t, "CONNECT_TEST_FAULTS_PACE", "1"), 64)
	if err != nil || pace <= 0 {
		t.Fatalf("CONNECT_TEST_FAULTS_PACE: %v, %v", pace, err)
	}
	began := time.Now()
	var flags []string
	if overlay := os.Getenv("CONNECT_TEST_FAULTS_OVERLAY"); overlay != "" { // tools/mutants
		flags = []string{"-overlay", overlay}
	}
	s := newStorm(t, seed, newDatabase(t, smallDisk), build(t, "storm", "", flags...), seed%2 == 1, seed/2%2 == 1, seed/4%2 == 1, false)
	s.pace = pace
	whole, over := context.WithDeadline(t.Context(), began.Add(lasts+slack))
	defer over()
	s.whole = whole
	t.Logf("seed %d, limiter in %s, PgBouncer %v, replica %v, for %s at a pace of %v",
		seed, map[bool]string{true: "Redis", false: "PostgreSQL"}[s.redis != nil], s.pooled, s.replica != nil, lasts, pace)
	defer func() {
		if err := s.sum.add(seed, pace, lasts, !t.Failed()); err != nil {
			t.Error(err)
		}
		s.sum.print(t)
		if t.Failed() {
			s.book.timeline(t)
			t.Logf("to run it again: make test-faults CONNECT_TEST_FAULTS_SEED=%d CONNECT_TEST_FAULTS_FOR=%s CONNECT_TEST_FAULTS_PACE=%v", seed, lasts, pace)
		}
	}()
	steps := []struct {
		name string
		do   func()
	}{
		{"the start", s.prepare},
		{"the storm", func() { s.rage(lasts) }},
		{"the calm after it", s.calm},
		{"the checks", s.check},
		{"the loss of commits", func() { s.loseCommits(rand.New(rand.NewPCG(seed, 3))) }},
	}
	done := 0
	defer func() {
		if whole.Err() != nil && done < len(steps) {
			t.Errorf("a storm of %s was not over within %s: the machine is too busy, or something hangs. It is not known how these end:", lasts, lasts+slack)
			for _, step := range steps[done:] {
				t.Log(step.name)
			}
		}
	}()
	for ; done < len(steps) && whole.Err() == nil; done++ {
		steps[done].do()
	}
}

// How long the load goes on without faults: before the storm, and after it. Good answers are counted at the end of either.
const (
	quiet    = 20 * time.Second
	recovery = 10 * time.Second
	counted  = 10 * time.Second
)

// rage lets faults last for a time under the load. Soon after the last of them, as many requests are answered as before the first.
func (s *storm) rage(lasts time.Duration) {
	stop, end := context.WithCancel(s.whole)
	defer end()
	s.stop = stop
	var load, faults sync.WaitGroup
	s.startLoad(&load)
	await(stop, quiet)
	before := s.sum.good(time.Now().Add(-counted))
	var over context.CancelFunc
	s.faulty, over = context.WithTimeout(stop, lasts)
	defer over()
	faults.Go(func() { s.processFaults(rand.New(rand.NewPCG(s.seed, 1))) })
	faults.Go(func() { s.networkFaults(rand.New(rand.NewPCG(s.seed, 2))) })
	faults.Wait()
	await(stop, recovery+counted)
	after := s.sum.good(time.Now().Add(-counted))
	end()
	load.Wait()
	s.sum.fact("of the load %d requests were answered well in %s before the faults, and %d after them", before, counted, after)
	if after < before*3/4 { // the load is of chance, too: TestGoodput of the bench is exact
		s.Errorf("%s after the last fault %d requests were answered well in %s, before the first %d", recovery, after, counted, before)
	}
}

// Context ends with the time that there is for the storm. It replaces that of the test.
func (s *storm) Context() context.Context { return s.whole }

// newStorm starts everything but the load. The servers also have the settings of env. bare is for the mail of release 1.0.0, see mailcatcher.Config.
func newStorm(t *testing.T, seed uint64, database *database, program string, redis, pooled, replicated, bare bool, env ...string) *storm {
	t.Helper()
	s := &storm{
		T: t, whole: t.Context(), seed: seed, began: time.Now(), dir: t.TempDir(), database: database, pooled: pooled, sum: newSummary(), book: newBook(),
		audit: newAuditLedger(), codes: newCodeLedger(), pauses: &pauseLedger{}, portal: &portalLedger{}, changes: &changeLedger{}, receipts: &receiptLedger{},
	}
	s.programs.are(program)
	if err := s.migrate(t.Context(), program, "up"); err != nil {
		t.Fatal(err)
	}
	behind := s.database.way.address
	databaseURL := s.database.url(s.database.way)
	if pooled {
		pooler := pgbouncertest.Start(t, filepath.Join("..", "..", "..", "docs", "pgbouncer.ini"), databaseURL)
		databaseURL = pooler.URL
		behind = hostOf(databaseURL)
		s.supervise(pooler.Server)
	}
	if redis {
		s.redis = redistest.Start(t)
	}
	if replicated {
		s.replica = s.newReplica()
	}
	s.mail, s.receiver = newMailbox(t, s.codes, bare), newReceiver(t, s)
	keyset := filepath.Join(s.dir, "keyset.json")
	if err := credential.CreateKeyset(keyset); err != nil {
		t.Fatal(err)
	}
	s.env = []string{
		"CONNECT_BASE_URL=" + baseURL, "CONNECT_KEYSET_FILE=" + keyset, "CONNECT_LISTEN=127.0.0.1:0", "CONNECT_PRIVATE_LISTEN=127.0.0.1:0", "CONNECT_DRAIN_DELAY=1s",
		"CONNECT_OPERATOR_TOKEN=" + operatorToken, "CONNECT_SMTP_URL=smtp://" + s.mail.address, "CONNECT_MAIL_FROM=no-reply@example.com",
		"CONNECT_SIGN_IN_CODES_PER_EMAIL=0", "CONNECT_SIGN_IN_CODES_PER_NETWORK=0", "CONNECT_ACTIVITY_UPDATED_WINDOW=1s",
		"CONNECT_WEBHOOK_ALLOW_CIDRS=127.0.0.0/8", "SSL_CERT_FILE=" + s.receiver.authority,
	}
	s.env = append(s.env, env...)
	for n := range servers {
		db := newLink(t, fmt.Sprintf("server %d to its database", n), behind)
		front := newLink(t, fmt.Sprintf("clients to server %d", n), "127.0.0.1:9") // it has no address yet
		env := append(slices.Clone(s.env), "CONNECT_DATABASE_URL="+strings.Replace(databaseURL, behind, db.address, 1))
		back := newLink(t, fmt.Sprintf("operator to server %d", n), "127.0.0.1:9")
		s.links = append(s.links, db, front, back)
		if redis {
			limiter := newLink(t, fmt.Sprintf("server %d to Redis", n), s.redis.Addr)
			env = append(env, "CONNECT_LIMITER_URL=redis://"+limiter.address)
			s.links = append(s.links, limiter)
		}
		if replicated {
			env = append(env, "CONNECT_DATABASE_READ_URL="+s.database.url(s.replica.way))
		}
		one := &server{t: t, program: program, env: env, front: front, back: back}
		if err := one.start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = one.end(os.Kill) })
		s.servers = append(s.servers, one)
	}
	s.env = append(s.env, "CONNECT_DATABASE_URL="+databaseURL) // of commands
	s.steady, s.flighty, s.hot = s.register("Steady", plenty), s.register("Flighty", plenty), s.register("Hot", hotPolicy)
	s.turning, s.narrow = s.register("Turning", plenty), s.register("Narrow", narrowPolicy)
	if !bare {
		s.paused, s.guided = s.register("Paused", plenty), s.register("Guided", plenty)
		s.asking = s.register("Asking", plenty, "--contact-email", contact)
	}
	s.secrets = newSecretLedger(s.turning)
	return s
}

// supervise starts PgBouncer again when it has ended by itself, as versions 1.18 to 1.20 do when a cancel request meets the end of
// its statement.
func (s *storm) supervise(pooler *process.Server) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-pooler.Ended():
				s.sum.fault("PgBouncer ended by itself, and was started")
				pooler.Restart(s.T)
			}
		}
	}()
	s.Cleanup(func() { stop(); <-done })
}

func hostOf(address string) string {
	_, rest, _ := strings.Cut(address, "@")
	host, _, _ := strings.Cut(rest, "/")
	return host
}

// sample is a request, and when its answer came.
type sample struct {
	kind, answer string
	at           time.Time
	took         time.Duration
}

// summary is what happened, by kind.
type summary struct {
	mu      sync.Mutex
	faults  map[string]int
	answers map[string]map[string]int
	longest map[string]time.Duration
	samples []sample
	facts   []string
}

func newSummary() *summary {
	return &summary{faults: map[string]int{}, answers: map[string]map[string]int{}, longest: map[string]time.Duration{}}
}

func (s *summary) fault(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[kind]++
}

// answer notes a request's answer, a status or "none".
func (s *summary) answer(kind, answer string, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answers[kind] == nil {
		s.answers[kind] = map[string]int{}
	}
	s.answers[kind][answer]++
	s.samples = append(s.samples, sample{kind, answer, time.Now(), took})
	if answer != "none" {
		s.longest[kind] = max(s.longest[kind], took)
	}
}

// good is how many requests have been answered well since then.
func (s *summary) good(since time.Time) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sample := range s.samples {
		if sample.at.After(since) && sample.answer == "OK" {
			n++
		}
	}
	return n
}

func (s *summary) fact(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.facts = append(s.facts, fmt.Sprintf(format, args...))
}

func (s *summary) print(t *testing.T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var text strings.Builder
	total := 0
	for _, kind := range slices.Sorted(maps.Keys(s.faults)) {
		fmt.Fprintf(&text, "  %4d × %s\n", s.faults[kind], kind)
		total += s.faults[kind]
	}
	fmt.Fprintf(&text, "%d faults in all\n\n", total)
	requests := 0
	for _, kind := range slices.Sorted(maps.Keys(s.answers)) {
		var told []string
		for _, answer := range slices.Sorted(maps.Keys(s.answers[kind])) {
			told = append(told, fmt.Sprintf("%s: %d", answer, s.answers[kind][answer]))
			requests += s.answers[kind][answer]
		}
		fmt.Fprintf(&text, "  %-24s %s; longest wait of an answer %s\n", kind, strings.Join(told, ", "), s.longest[kind].Round(time.Millisecond))
	}
	fmt.Fprintf(&text, "%d requests in all\n\n%s\n", requests, strings.Join(s.facts, "\n"))
	t.Logf("the storm:\n%s", text.String())
}

// address of a listener that is of no server.
func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}
