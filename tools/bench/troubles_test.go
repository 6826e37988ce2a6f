package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// lockRow sends refreshes of a connection whose row a session holds.
func (s *stage) lockRow(ctx context.Context, begin func(), o *outcome) error {
	connected, err := s.connectFrom(ctx, troubleUser, 1, o.partnerA)
	if err != nil {
		return err
	}
	refresh := refreshRequest(o.partnerA, connected[0].RefreshToken)
	tx, err := s.conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx) //nolint:errcheck // it was rolled back, or has failed
	if _, err := tx.Exec(ctx, "select from connections where user_id = $1 and client_id = $2 for update",
		userID(troubleUser), clientID(o.partnerA)); err != nil {
		return err
	}
	begin()
	const interval = 50 * time.Millisecond
	refreshes := int(s.duration() / interval)
	client, responses := s.tls.client(refreshes), make(chan int, refreshes)
	began := time.Now()
	for sent := range refreshes {
		until(began.Add(time.Duration(sent)*interval), ctx.Done())
		go func() {
			status, _ := send(client, refresh, nil)
			responses <- status
		}()
		o.Connections = max(o.Connections, sent+1-len(responses))
	}
	if err := tx.Rollback(ctx); err != nil {
		return err
	}
	counts := map[int]int{}
	for range refreshes {
		counts[<-responses]++
	}
	o.Statuses = counts
	return nil
}

func (s *stage) repeatCode(ctx context.Context, begin func(), o *outcome) error {
	codes, err := s.codes(ctx, []pair{{troubleUser, o.partnerA}})
	if err != nil {
		return err
	}
	exchange := exchangeRequest(o.partnerA, codes[0])
	if status, err := send(s.tls.client(1), exchange, nil); status != http.StatusOK {
		return errors.Join(fmt.Errorf("the first exchange: status %d", status), err)
	}
	o.Connections = 500
	l := load{connections: o.Connections, requests: eachOnce(slices.Repeat([]request{exchange}, 2000))}
	sample, err := o.flood(l, time.Minute, begin)
	o.Statuses, o.Seconds = sample.Statuses, sample.Elapsed.Seconds()
	return err
}

// exceedBudget reads far more than partner A may.
func (s *stage) exceedBudget(ctx context.Context, begin func(), o *outcome) error {
	if _, err := s.conn.Exec(ctx, "update clients set concurrent_reads = 10, requests_per_minute = 600, burst = 60 where client_id = $1",
		clientID(o.partnerA)); err != nil {
		return err
	}
	connected, err := s.connectFrom(ctx, troubleUser, 50, o.partnerA)
	if err != nil {
		return err
	}
	o.Connections = 500
	requests := make([]request, len(connected))
	for i, c := range connected {
		requests[i] = readRequest(readPath(c, "daily-activity"), c.AccessToken)
	}
	sample, err := o.flood(load{connections: o.Connections, requests: inTurns(requests...)}, s.duration(), begin)
	o.Statuses = sample.Statuses
	return err
}

// importSteps lets the program import a file of a million rows, which are new ones of other users than the cases have.
// It leaves the reference to two connections: the import keeps itself and its session of PostgreSQL busy.
func (s *stage) importSteps(ctx context.Context, begin func(), o *outcome) error {
	o.Connections = 2
	const rows, firstUser = 1_000_000, 2000
	file := filepath.Join(s.dir, "steps.csv")
	if err := writeSteps(file, firstUser, rows); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	begin()
	began := time.Now()
	if err := s.command(ctx, "import", "daily-steps", file); err != nil {
		return err
	}
	o.Seconds = time.Since(began).Seconds()
	return nil
}

// burst is how many connections partner A refreshes at the same time.
const burst = 5_000

// refreshAll refreshes all of partner A's connections at once, half of them at each of two servers, as a nightly job might. Each must
// be answered 200: a partner throws away a token whose refresh was answered 500.
func (s *stage) refreshAll(ctx context.Context, begin func(), o *outcome) error {
	connected, err := s.connectFrom(ctx, troubleUser, burst, o.partnerA)
	if err != nil {
		return err
	}
	requests := make([]request, len(connected))
	for i, c := range connected {
		requests[i] = refreshRequest(o.partnerA, c.RefreshToken)
	}
	o.Connections, o.servers = burst, append(o.servers, s.second.endpoint)
	sample, err := o.flood(load{connections: burst, requests: eachOnce(requests)}, time.Minute, begin)
	o.Statuses, o.Seconds = sample.Statuses, sample.Elapsed.Seconds()
	if err == nil && sample.Statuses[http.StatusOK] != burst {
		err = fmt.Errorf("of %d refreshes some failed: %v", burst, sample.Statuses)
	}
	return err
}

// writeSteps writes days that were before those of the stage, by date and then by user, as a feed brings them.
func writeSteps(name string, firstUser, rows int) error {
	file, err := os.Create(filepath.Clean(name))
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // closed below, but for an error that is returned
	out := bufio.NewWriter(file)
	fmt.Fprintln(out, "user_id,date,steps")
	newest := today().AddDate(0, 0, -10*days)
	for n := range rows {
		day, user := n/(users-firstUser), firstUser+n%(users-firstUser)
		fmt.Fprintf(out, "%s,%s,%d\n", userID(user), newest.AddDate(0, 0, -day).Format(time.DateOnly), 1000+n%15000)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return file.Close()
}

const (
	abortConnections = 8
	abortStreams     = 16 // at a time on each connection, as many as the service allows
	// abortPlaces is how many reads partner A may have under way: more than it has, and few beside those that it takes back.
	abortPlaces = 100
)

// resetStreams asks for pages and reads over HTTP/2, and takes each request back a moment later. If the service kept the places of such
// reads, the read at the end would be refused.
func (s *stage) resetStreams(ctx context.Context, begin func(), o *outcome) error {
	if _, err := s.conn.Exec(ctx, "update clients set concurrent_reads = $1 where client_id = $2", abortPlaces, clientID(o.partnerA)); err != nil {
		return err
	}
	connected, err := s.connectFrom(ctx, troubleUser, 1, o.partnerA)
	if err != nil {
		return err
	}
	page := authorizeRequest(o.partnerA, 22)
	read := readRequest(readPath(connected[0], "daily-activity"), connected[0].AccessToken)
	client := s.tls.client(1)
	defer client.CloseIdleConnections()
	expect := func(r request, want int) error {
		if status, err := send(client, r, nil); status != want {
			return errors.Join(fmt.Errorf("%s: status %d", r.path, status), err)
		}
		return nil
	}
	if err := errors.Join(expect(page, http.StatusSeeOther), expect(read, http.StatusOK)); err != nil {
		return err
	}
	o.Connections = abortConnections
	a := aborter{endpoint: s.tls.endpoint, streams: abortStreams, after: 2 * time.Millisecond, requests: []request{page, read}}
	begin()
	if err := a.run(abortConnections, time.Now().Add(s.duration())); err != nil {
		return err
	}
	o.Statuses = map[int]int{0: int(a.reset.Load())}
	if o.Statuses[0] < 10*abortPlaces {
		return fmt.Errorf("only %d streams were reset", o.Statuses[0])
	}
	return expect(read, http.StatusOK)
}
