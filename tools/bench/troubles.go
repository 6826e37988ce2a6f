package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// lockRow sends refreshes of a connection whose row a session holds.
func (s *isolation) lockRow(ctx context.Context, begin func(), o *outcome) error {
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
	refreshes := int((s.duration() + settle) / interval) // the row is held for longer than the others ask
	responses := make(chan int, refreshes)
	began, sent := time.Now(), 0
	for sent < refreshes && until(began.Add(time.Duration(sent)*interval), ctx.Done()) {
		sent++
		go func() {
			status, _, _ := s.service.ask(refresh) // 0 without a response
			responses <- status
		}()
		o.Connections = max(o.Connections, sent-len(responses))
	}
	if err := tx.Rollback(ctx); err != nil {
		return err
	}
	o.Statuses = count(responses, sent)
	return nil
}

// count counts n statuses as they come.
func count(responses <-chan int, n int) statuses {
	counts := map[int]int{}
	for range n {
		counts[<-responses]++
	}
	return named(counts)
}

// repeatCode exchanges a code, and then again and again.
func (s *isolation) repeatCode(ctx context.Context, begin func(), o *outcome) error {
	codes, err := s.codes(ctx, []pair{{troubleUser, o.partnerA}})
	if err != nil {
		return err
	}
	exchange := exchangeRequest(o.partnerA, codes[0])
	if err := s.expect(exchange, http.StatusOK); err != nil {
		return fmt.Errorf("the first exchange: %w", err)
	}
	o.Connections = 500
	l := load{connections: o.Connections, requests: eachOnce(slices.Repeat([]string{exchange}, 2000))}
	sample, err := s.flood(l, time.Minute, begin)
	o.Statuses, o.Seconds = named(sample.Statuses), sample.Elapsed.Seconds()
	return err
}

// exceedBudget reads far more than partner A may.
func (s *isolation) exceedBudget(ctx context.Context, begin func(), o *outcome) error {
	connected, err := s.connectFrom(ctx, troubleUser, 50, o.partnerA)
	if err != nil {
		return err
	}
	o.Connections = 500
	sample, err := s.flood(load{connections: o.Connections, requests: inTurns(readsOf(connected)...)}, s.beside(), begin)
	o.Statuses = named(sample.Statuses)
	return err
}

// importSteps lets the program import a file of a million rows, which are new ones of other users than the cases have.
// It leaves the reference to two connections: the import keeps itself and its session of PostgreSQL busy.
func (s *isolation) importSteps(ctx context.Context, begin func(), o *outcome) error {
	o.Connections = 2
	const rows, firstUser = 1_000_000, 2000
	file := filepath.Join(s.dir, "steps.csv")
	if err := writeSteps(file, firstUser, rows); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.settings.program, "import", "daily-steps", file)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "CONNECT_DATABASE_URL=" + s.database.URL()}
	begin()
	began := time.Now()
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(output))
	}
	o.Seconds = time.Since(began).Seconds()
	return nil
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

// expect sends a request whose response must have a status, or the case would show nothing.
func (s *isolation) expect(request string, want int) error {
	status, body, err := s.service.ask(request)
	if err == nil && status != want {
		err = statusError(status, want, body)
	}
	return err
}
