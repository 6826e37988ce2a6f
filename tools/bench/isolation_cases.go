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
	"time"
)

// lockRow sends refreshes of a connection whose row a session holds.
func (s *isolation) lockRow(ctx context.Context, begin func() error, o *outcome) error {
	client := o.partnerA
	granted, err := s.grantsOf(ctx, troubleUser, 1, client)
	if err != nil {
		return err
	}
	refreshes := &openLoop{
		Address: s.service.address, Roots: s.certificate, Connections: 200, Rate: 20,
		Request: formOf(formHead("/oauth/token", client), refreshForm+granted[0].RefreshToken),
	}
	refreshes.connectLater() // the service closes a connection on which nothing comes for five seconds
	defer refreshes.close()
	tx, err := s.conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx) //nolint:errcheck // it was rolled back, or has failed
	if _, err := tx.Exec(ctx, "select from connections where user_id = $1 and client_id = $2 for update",
		userID(troubleUser), clientID(client)); err != nil {
		return err
	}
	if err := begin(); err != nil {
		return err
	}
	hold := s.duration() + settle // of the row: longer than the others ask
	answered := make(chan loadResult, 1)
	go func() { answered <- refreshes.run(hold, ctx.Done()) }()
	until(time.Now().Add(hold), ctx.Done())
	if err := tx.Rollback(ctx); err != nil {
		return err
	}
	result := <-answered
	o.Connections, o.Statuses = result.Peak, named(result.Statuses)
	return nil
}

// repeatCode exchanges a code, and then again and again.
func (s *isolation) repeatCode(ctx context.Context, begin func() error, o *outcome) error {
	client := o.partnerA
	codes, err := s.codes(ctx, []pair{{troubleUser, client}})
	if err != nil {
		return err
	}
	exchange := exchangeRequest(client, codes[0])
	if err := s.once(exchange, http.StatusOK); err != nil {
		return fmt.Errorf("the first exchange: %w", err)
	}
	const repeats = 2000
	o.Connections = 500
	burst := load{Connections: o.Connections, Duration: time.Minute, Once: true, Requests: make([]string, repeats)}
	for i := range burst.Requests {
		burst.Requests[i] = exchange
	}
	result, err := s.flood(burst, begin)
	o.Statuses, o.Seconds = named(result.Statuses), result.Elapsed.Seconds()
	return err
}

// exceedBudget reads far more than partner A may.
func (s *isolation) exceedBudget(ctx context.Context, begin func() error, o *outcome) error {
	granted, err := s.grantsOf(ctx, troubleUser, 50, o.partnerA)
	if err != nil {
		return err
	}
	o.Connections = 500
	result, err := s.flood(load{Connections: o.Connections, Duration: s.beside(), Requests: readsOf(granted)}, begin)
	o.Statuses = named(result.Statuses)
	return err
}

// importSteps lets the program take in a file of a million rows, which are new ones of other users than the cases have.
// It leaves the reference to two connections: the import keeps itself and its session of PostgreSQL busy.
func (s *isolation) importSteps(ctx context.Context, begin func() error, o *outcome) error {
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
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := begin(); err != nil {
		return err
	}
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(said.Bytes()))
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
	defer file.Close() //nolint:errcheck // closed below, but for an error that is told
	out := bufio.NewWriter(file)
	fmt.Fprintln(out, "user_id,date,steps")
	newest := time.Now().UTC().AddDate(0, 0, -10*days)
	for n := range rows {
		day, user := n/(users-firstUser), firstUser+n%(users-firstUser)
		fmt.Fprintf(out, "%s,%s,%d\n", userID(user), newest.AddDate(0, 0, -day).Format(time.DateOnly), 1000+n%15000)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return file.Close()
}

// once sends a request that is answered with a status, or the case would show nothing.
func (s *isolation) once(request string, want int) error {
	w, err := dial(s.service.address, s.certificate)
	if err != nil {
		return err
	}
	defer w.Close() //nolint:errcheck // all was read
	status, body, err := w.answer(request)
	if err == nil && status != want {
		err = fmt.Errorf("status %d, want %d: %s", status, want, body)
	}
	return err
}
