package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

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
	{name: "aborted_streams", cause: (*stage).resetStreams},
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

// Run starts two servers, and measures the chosen cases.
func (i *isolationCommand) Run(ctx context.Context) (err error) {
	s := newStage(i.settings)
	defer s.close()
	if err := s.openDatabase(ctx); err != nil {
		return err
	}
	if err := s.keepSegments(ctx); err != nil {
		return err
	}
	if s.tls, err = s.serve(ctx, "isolation", true); err != nil {
		return err
	}
	if s.second, err = s.serve(ctx, "second", true); err != nil {
		return err
	}
	var names []string
	for _, c := range isolationCases {
		names = append(names, c.name)
	}
	return s.report(ctx, i.Out, names, func(n int) (*outcome, error) { return s.measure(ctx, n, isolationCases[n]) })
}

// keepSegments sets min_wal_size as docs/operations.md advises for imports, and writes as much, so that there are segments to use again.
func (s *stage) keepSegments(ctx context.Context) error {
	return s.exec(ctx, "alter system set min_wal_size = '1GB'", "select pg_reload_conf()",
		"select pg_logical_emit_message(false, '', repeat('x', 16000000)) from generate_series(1, 50)", "checkpoint")
}

// report measures the chosen cases, and writes the figures to a file. Error: a case that failed, or a bound that does not hold.
func (s *stage) report(ctx context.Context, file string, cases []string, measure func(n int) (*outcome, error)) error {
	outcomes := []*outcome{}
	var failed error
	for n, name := range cases {
		if !s.Only.MatchString(name) || ctx.Err() != nil {
			continue
		}
		fmt.Printf("%s; load of the machine: %s", name, loadAverage())
		o, err := measure(n)
		if err != nil { // the next case has a client and users of its own
			failed = errors.Join(failed, fmt.Errorf("%s: %w", name, err))
			continue
		}
		o.Case = name
		outcomes = append(outcomes, o)
	}
	return errors.Join(failed, reportIsolation(os.Stdout, file, outcomes))
}

// measure shows that one caller's trouble does not reach others. They are the connections of partner B.
func (s *stage) measure(ctx context.Context, n int, c isolationCase) (*outcome, error) {
	connected, err := s.connectFrom(ctx, n*otherGrants, otherGrants, partnerB)
	if err != nil {
		return nil, err
	}
	o := &outcome{partnerA: partnerA + n, servers: []endpoint{s.tls.endpoint}}
	m := measurements{others: newOthers(s.tls.endpoint, connected), seconds: s.duration()}
	return o, m.take(ctx, o, c.times, func(begin func()) error { return c.cause(s, ctx, begin, o) }, func(begin func()) error {
		_, err := o.flood(load{connections: o.Connections, requests: inTurns(discovery)}, s.duration(), begin)
		return err
	})
}

// measurements of the others, who are refreshed and read at a fixed rate.
type measurements struct {
	others   *others
	visitors *visitors // nil: none
	seconds  time.Duration
	fresh    bool // the trouble comes first, to a server that nobody has asked yet
}

// take measures the others alone, beside the trouble, and beside the reference: as many connections to a constant page of the same
// servers as the trouble uses, which is what the machine's processors alone cost. It judges the outcome.
func (m measurements) take(ctx context.Context, o *outcome, times float64, trouble, reference func(begin func()) error) error {
	alone := func(begin func()) error {
		begin()
		return nil
	}
	var failed error
	during := func(act func(begin func()) error) (of sample) {
		if failed != nil {
			return of
		}
		of, failed = m.others.during(m.seconds, func(begin func()) error {
			return act(func() {
				begin()
				if m.visitors != nil {
					m.visitors.begin(ctx)
				}
			})
		})
		if m.visitors != nil && failed == nil {
			of = m.visitors.end(of)
		}
		return of
	}
	pause := func() { // opens the service's connections to the database, too
		if failed == nil {
			_, failed = m.others.during(settle, alone)
		}
	}
	var beside sample
	if m.fresh {
		beside = during(trouble)
	}
	pause()
	quiet := during(alone)
	if !m.fresh {
		beside = during(trouble)
	}
	pause()
	o.judge(times, quiet, beside, during(reference))
	return failed
}

// connectFrom connects n users, from one on, with a partner.
func (s *stage) connectFrom(ctx context.Context, firstUser, n, client int) ([]connection, error) {
	pairs := make([]pair, n)
	for i := range pairs {
		pairs[i] = pair{firstUser + i, client}
	}
	return s.connect(ctx, pairs)
}
