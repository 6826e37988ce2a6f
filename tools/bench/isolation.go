package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"time"
)

// isolation shows that one caller's trouble does not reach others. They are the connections of partner B, which are
// refreshed and read at a fixed rate, by a process of their own: alone, beside the trouble, and beside as many connections
// to a constant page of the same server as the trouble uses, which is what the machine's processors alone cost.
type isolation struct {
	*stage
	service *service
	seconds int // of each measurement
	streams int // see aborts
}

// isolationCase is a trouble of partner A, or of nobody.
type isolationCase struct {
	name string
	// times is what the others' p99 may be of their quiet one; 0: see bound.
	times float64
	// long lets the others go on until the trouble is over.
	long bool
	// cause makes the trouble. When all is ready it calls begin, with which the others begin, and goes on for at least as
	// long as they do, or until its work is done.
	cause func(s *isolation, ctx context.Context, begin func() error, o *outcome) error
}

var isolationCases = []isolationCase{
	{name: "locked_row", times: 2, cause: (*isolation).lockRow},
	{name: "used_code", cause: (*isolation).repeatCode},
	{name: "over_budget", cause: (*isolation).exceedBudget},
	{name: "aborts", cause: (*isolation).abort},
	{name: "import", long: true, cause: (*isolation).importSteps},
}

const (
	otherGrants  = 100 // of each case, so that what a case breaks is not missing in the next
	otherRate    = 40  // requests a second: half refreshes, half reads
	otherPool    = 16  // connections
	partnerB     = firstReader
	firstTrouble = firstPair // partner A is another one in each case: firstTrouble and the number of the case
	troubleUser  = 1000      // the first of the users whose connections are used for it
	warmUser     = 1100

	concurrentReads = 10 // of partner A

	settle  = time.Second // after a trouble, and before a measurement
	longest = 3 * time.Minute
)

func runIsolation(ctx context.Context, args []string) error {
	var s isolation
	s.stage = &stage{constants: map[int]constant{}}
	var pattern string
	flags := flag.NewFlagSet("connect-bench isolation", flag.ContinueOnError)
	flags.StringVar(&pattern, "only", "", "measure the cases that match this regular expression")
	flags.IntVar(&s.seconds, "seconds", 6, "length of each measurement in seconds")
	flags.IntVar(&s.streams, "streams", 100, // RFC 9113, section 6.5.2: a server should allow as many
		"streams that a connection of the aborts has open at most, where the server allows more")
	flags.StringVar(&s.settings.program, "program", "bin/connect-svc",
		"the program to measure; its schema and command line must be those of this checkout")
	flags.StringVar(&s.settings.out, "out", "bin/isolation.json", "file for the figures")
	if err := flags.Parse(args); err != nil {
		return err
	}
	only, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	if s.seconds < 1 || s.seconds > 60 || s.streams < 1 || flags.NArg() > 0 {
		return errors.New("-seconds is 1 to 60, -streams is 1 or more, and there are no other arguments")
	}
	defer s.close()
	if err := s.open(ctx); err != nil {
		return err
	}
	outcomes := []*outcome{}
	var failed error
	for n, c := range isolationCases {
		if !only.MatchString(c.name) || ctx.Err() != nil {
			continue
		}
		o, err := s.measure(ctx, n, c)
		if err != nil { // the next case has a client and users of its own
			failed = errors.Join(failed, fmt.Errorf("%s: %w", c.name, err))
			continue
		}
		outcomes = append(outcomes, o)
	}
	return errors.Join(failed, reportIsolation(os.Stdout, s.settings.out, outcomes))
}

// open starts a database and the service, with partners whose rate policies the cases are about.
func (s *isolation) open(ctx context.Context) (err error) {
	if err := s.openDatabase(ctx); err != nil {
		return err
	}
	for n, c := range isolationCases {
		budget := ""
		if c.name == "over_budget" {
			budget = ", requests_per_minute = 600, burst = 60"
		}
		if _, err := s.conn.Exec(ctx, "update clients set concurrent_reads = $1"+budget+" where client_id = $2",
			concurrentReads, clientID(firstTrouble+n)); err != nil {
			return err
		}
	}
	if s.service, err = s.serve(ctx, "isolation", s.withTLS()...); err != nil {
		return err
	}
	s.processes = append(s.processes, s.service.process)
	return nil
}

func (s *isolation) duration() time.Duration { return time.Duration(s.seconds) * time.Second }

// beside is how long a trouble lasts: a little longer than the others, who must not be alone at their end.
func (s *isolation) beside() time.Duration { return s.duration() + settle/2 }

func (s *isolation) measure(ctx context.Context, n int, c isolationCase) (*outcome, error) {
	fmt.Printf("%s; load of the machine: %s", c.name, loadAverage())
	asked, err := s.others(ctx, n)
	if err != nil {
		return nil, err
	}
	defer asked.close()                             //nolint:errcheck // it has told its figures, or is no longer needed
	if _, err := asked.during(settle); err != nil { // opens the service's connections to the database
		return nil, err
	}
	o := &outcome{Case: c.name, partnerA: firstTrouble + n}
	quiet, err := asked.during(s.duration())
	if err != nil {
		return nil, err
	}
	lasts := s.duration()
	if c.long {
		lasts = longest
	}
	if err := c.cause(s, ctx, func() error { return asked.begin(lasts) }, o); err != nil {
		return nil, err
	}
	if c.long {
		if err := asked.stop(); err != nil {
			return nil, err
		}
	}
	beside, err := asked.result()
	if err != nil {
		return nil, err
	}
	if _, err := asked.during(settle); err != nil {
		return nil, err
	}
	flood := load{Connections: o.Connections, Duration: s.beside(), Requests: []string{getRequest("/.well-known/oauth-authorization-server", "")}}
	if _, err := s.flood(flood, func() error { return asked.begin(s.duration()) }); err != nil {
		return nil, err
	}
	reference, err := asked.result()
	if err != nil {
		return nil, err
	}
	o.judge(c, quiet, beside, reference)
	return o, nil
}

// flood sends from this process.
func (s *isolation) flood(l load, begin func() error) (loadResult, error) {
	l.Address, l.Roots = s.service.address, s.certificate
	return l.run(begin)
}

// others connects users with partner B, and starts the process that asks for them.
func (s *isolation) others(ctx context.Context, n int) (others, error) {
	granted, err := s.grantsOf(ctx, n*otherGrants, otherGrants, partnerB)
	if err != nil {
		return others{}, err
	}
	g, err := prepare(ctx, "others", &openLoop{
		Address: s.service.address, Roots: s.certificate, Connections: otherPool, Rate: otherRate,
		RefreshHead: formHead("/oauth/token", partnerB), Grants: granted,
	})
	return others{g}, err
}

// grantsOf connects users, from one on, with a partner.
func (s *isolation) grantsOf(ctx context.Context, firstUser, n, client int) ([]*grant, error) {
	pairs := make([]pair, n)
	for i := range pairs {
		pairs[i] = pair{firstUser + i, client}
	}
	p, err := s.newPurse(ctx, pairs)
	if err != nil {
		return nil, err
	}
	grants := make([]*grant, n)
	for i, t := range p.tokens {
		grants[i] = &grant{
			Path:        readPath(t.GrantID, "daily-activity", time.Now().UTC()),
			AccessToken: t.AccessToken, RefreshToken: t.RefreshToken,
		}
	}
	return grants, nil
}

func readsOf(grants []*grant) []string {
	requests := make([]string, len(grants))
	for i, g := range grants {
		requests[i] = g.read()
	}
	return requests
}
