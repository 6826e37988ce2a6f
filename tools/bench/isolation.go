package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// isolationCommand measures each case.
type isolationCommand struct {
	settings
	Out string `default:"bin/isolation.json" help:"File for the figures."`
}

// isolationCase is a trouble of partner A, or of nobody.
type isolationCase struct {
	name string
	// times is what the others' p99 may be of their quiet one; 0: see judge.
	times float64
	// cause makes the trouble. When all is ready it calls begin, with which the others begin.
	cause func(s *stage, ctx context.Context, begin func(), o *outcome) error
}

var isolationCases = []isolationCase{
	{name: "locked_row", times: 2, cause: (*stage).lockRow},
	{name: "used_code", cause: (*stage).repeatCode},
	{name: "over_budget", cause: (*stage).exceedBudget},
	{name: "import", cause: (*stage).importSteps},
	{name: "burst", cause: (*stage).refreshAll},
}

const (
	otherGrants = 101 // of each case, so that what a case breaks is not missing in the next; odd: see others.send
	partnerB    = firstReader
	partnerA    = firstPair // and the number of the case, which has a partner of its own
	troubleUser = 1000      // the first of the users whose connections are used for it

	settle = time.Second // before a measurement
)

// Run writes the figures to a file. Error: a bound that does not hold.
func (i *isolationCommand) Run(ctx context.Context) error {
	s := newStage(i.settings)
	defer s.close()
	if err := s.openIsolation(ctx); err != nil {
		return err
	}
	outcomes := []*outcome{}
	var failed error
	for n, c := range isolationCases {
		if !i.Only.MatchString(c.name) || ctx.Err() != nil {
			continue
		}
		o, err := s.measure(ctx, n, c)
		if err != nil { // the next case has a client and users of its own
			failed = errors.Join(failed, fmt.Errorf("%s: %w", c.name, err))
			continue
		}
		outcomes = append(outcomes, o)
	}
	return errors.Join(failed, reportIsolation(os.Stdout, i.Out, outcomes))
}

// openIsolation starts a database and the service, with partners whose rate policies the cases are about.
func (s *stage) openIsolation(ctx context.Context) (err error) {
	if err := s.openDatabase(ctx); err != nil {
		return err
	}
	for n, c := range isolationCases {
		if c.name == "over_budget" {
			if _, err := s.conn.Exec(ctx, "update clients set concurrent_reads = 10, requests_per_minute = 600, burst = 60 where client_id = $1",
				clientID(partnerA+n)); err != nil {
				return err
			}
		}
	}
	if s.tls, err = s.serve(ctx, "isolation", true); err != nil {
		return err
	}
	s.second, err = s.serve(ctx, "second", true)
	return err
}

// measure shows that one caller's trouble does not reach others. They are the connections of partner B, which are
// refreshed and read at a fixed rate: alone, beside the trouble, and beside as many connections to a constant page of the
// same server as the trouble uses, which is what the machine's processors alone cost.
func (s *stage) measure(ctx context.Context, n int, c isolationCase) (*outcome, error) {
	fmt.Printf("%s; load of the machine: %s", c.name, loadAverage())
	connected, err := s.connectFrom(ctx, n*otherGrants, otherGrants, partnerB)
	if err != nil {
		return nil, err
	}
	others := newOthers(s.tls.endpoint, connected)
	o := &outcome{Case: c.name, partnerA: partnerA + n}
	alone := func(begin func()) error {
		begin()
		return nil
	}
	if _, err := others.during(settle, alone); err != nil { // opens the service's connections to the database
		return nil, err
	}
	quiet, err := others.during(s.duration(), alone)
	if err != nil {
		return nil, err
	}
	beside, err := others.during(s.duration(), func(begin func()) error { return c.cause(s, ctx, begin, o) })
	if err != nil {
		return nil, err
	}
	if _, err := others.during(settle, alone); err != nil {
		return nil, err
	}
	reference, err := others.during(s.duration(), func(begin func()) error {
		_, err := s.flood(load{connections: o.Connections, requests: inTurns(discovery)}, s.duration(), begin)
		return err
	})
	if err != nil {
		return nil, err
	}
	o.judge(c, quiet, beside, reference)
	return o, nil
}

// flood sends a load from this process, whatever the responses.
func (s *stage) flood(l load, duration time.Duration, begin func()) (sample, error) {
	l.anyStatus = true
	callers, err := l.connect(s.tls.endpoint)
	if err != nil {
		return sample{}, err
	}
	defer callers.close()
	begin()
	return callers.run(duration)
}

// connectFrom connects n users, from one on, with a partner.
func (s *stage) connectFrom(ctx context.Context, firstUser, n, client int) ([]connection, error) {
	pairs := make([]pair, n)
	for i := range pairs {
		pairs[i] = pair{firstUser + i, client}
	}
	return s.connect(ctx, pairs)
}
