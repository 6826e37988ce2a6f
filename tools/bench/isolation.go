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
// refreshed and read at a fixed rate: alone, beside the trouble, and beside as many connections to a constant page of the
// same server as the trouble uses, which is what the machine's processors alone cost.
type isolation struct {
	*stage
	service *service
}

// isolationCase is a trouble of partner A, or of nobody.
type isolationCase struct {
	name string
	// times is what the others' p99 may be of their quiet one; 0: see judge.
	times float64
	// long lets the others go on until the trouble is over.
	long bool
	// cause makes the trouble. When all is ready it calls begin, with which the others begin, and goes on for at least as
	// long as they do, or until its work is done.
	cause func(s *isolation, ctx context.Context, begin func(), o *outcome) error
}

var isolationCases = []isolationCase{
	{name: "locked_row", times: 2, cause: (*isolation).lockRow},
	{name: "used_code", cause: (*isolation).repeatCode},
	{name: "over_budget", cause: (*isolation).exceedBudget},
	{name: "aborts", cause: (*isolation).abort},
	{name: "import", long: true, cause: (*isolation).importSteps},
}

const (
	otherGrants = 101 // of each case, so that what a case breaks is not missing in the next; odd: see Others.send
	partnerB    = firstReader
	partnerA    = firstPair // and the number of the case, which has a partner of its own
	troubleUser = 1000      // the first of the users whose connections are used for it
	warmUser    = 1100

	concurrentReads = 10 // of partner A

	settle  = time.Second // after a trouble, and before a measurement
	longest = 3 * time.Minute
)

func runIsolation(ctx context.Context, args []string) error {
	s := isolation{stage: &stage{}}
	var pattern string
	flags := flag.NewFlagSet("connect-bench isolation", flag.ContinueOnError)
	flags.StringVar(&pattern, "only", "", "measure the cases that match this regular expression")
	flags.IntVar(&s.settings.seconds, "seconds", 6, "length of each measurement in seconds")
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
	if s.settings.seconds < 1 || s.settings.seconds > 60 || flags.NArg() > 0 {
		return errors.New("-seconds is 1 to 60, and there are no other arguments")
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
			concurrentReads, clientID(partnerA+n)); err != nil {
			return err
		}
	}
	s.service, err = s.serve(ctx, "isolation", true)
	return err
}

// beside is how long a trouble lasts: a little longer than the others, who must not be alone at their end.
func (s *isolation) beside() time.Duration { return s.duration() + settle/2 }

func (s *isolation) measure(ctx context.Context, n int, c isolationCase) (*outcome, error) {
	fmt.Printf("%s; load of the machine: %s", c.name, loadAverage())
	connected, err := s.connectFrom(ctx, n*otherGrants, otherGrants, partnerB)
	if err != nil {
		return nil, err
	}
	others, err := s.startOthers(ctx, connected)
	if err != nil {
		return nil, err
	}
	defer others.close()
	if _, err := others.during(settle); err != nil { // opens the service's connections to the database
		return nil, err
	}
	o := &outcome{Case: c.name, partnerA: partnerA + n}
	quiet, err := others.during(s.duration())
	if err != nil {
		return nil, err
	}
	lasts := s.duration()
	if c.long {
		lasts = longest
	}
	if err := c.cause(s, ctx, func() { others.begin(lasts) }, o); err != nil {
		return nil, err
	}
	if c.long {
		if err := others.stop(); err != nil {
			return nil, err
		}
	}
	beside, err := others.sample()
	if err != nil {
		return nil, err
	}
	if _, err := others.during(settle); err != nil {
		return nil, err
	}
	page := load{connections: o.Connections, requests: inTurns(discovery)}
	if _, err := s.flood(page, s.beside(), func() { others.begin(s.duration()) }); err != nil {
		return nil, err
	}
	reference, err := others.sample()
	if err != nil {
		return nil, err
	}
	o.judge(c, quiet, beside, reference)
	return o, nil
}

// flood sends a load from this process, whatever the responses.
func (s *isolation) flood(l load, duration time.Duration, begin func()) (Sample, error) {
	l.endpoint, l.anyStatus = s.service.endpoint, true
	callers, err := l.connect()
	if err != nil {
		return Sample{}, err
	}
	defer callers.close()
	begin()
	return callers.run(duration)
}

// connectFrom connects n users, from one on, with a partner.
func (s *isolation) connectFrom(ctx context.Context, firstUser, n, client int) ([]connection, error) {
	pairs := make([]pair, n)
	for i := range pairs {
		pairs[i] = pair{firstUser + i, client}
	}
	return s.connect(ctx, pairs)
}

func readsOf(connections []connection) []string {
	requests := make([]string, len(connections))
	for i, c := range connections {
		requests[i] = getRequest(readPath(c, "daily-activity"), c.AccessToken)
	}
	return requests
}
