package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
)

type costsCommand struct {
	settings
	Out string `default:"bin/costs.txt" help:"File for the tables."`
}

const (
	costConnections = 8
	costRows        = 1000 // of a batch of days, one for each of so many users
	syncs           = 24   // a day
	checkpoints     = 96   // a day: one every 15 minutes
	keptDays        = 730
	keptRides       = 208 // two a week
)

// costed are the operations whose costs are printed.
var costed = []string{"refresh", "exchange", "revoke", "steps", "cycling_daily"}

// Run prints what each operation uses, and from that and from the sizes of rows what users cost on one machine.
func (c *costsCommand) Run(ctx context.Context) error {
	s := newStage(c.settings)
	defer s.close()
	if err := s.open(ctx); err != nil {
		return err
	}
	file, err := os.Create(c.Out)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // closed below, but for an error that is returned
	table := tabwriter.NewWriter(io.MultiWriter(os.Stdout, file), 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "operation\tlimiter\tms of the service\tof PostgreSQL\tof Redis\tbytes of WAL\t")
	costs := map[string]used{}
	add := func(name, limiter string, u used) {
		costs[name+limiter] = u
		fmt.Fprintf(table, "%s\t%s\t%.3f\t%.3f\t%.3f\t%.0f\t\n", name, limiter, u.cpu, u.databaseCPU, u.redisCPU, u.wal)
	}
	for i := range operations {
		if o := &operations[i]; slices.Contains(costed, o.name) {
			_, u, err := s.measureOperation(ctx, o, costConnections)
			if err != nil {
				return fmt.Errorf("%s: %w", o.name, err)
			}
			add(o.name, o.limiter, u)
		}
	}
	connected, err := s.connectFrom(ctx, 0, users, partnerB+1)
	if err != nil {
		return err
	}
	hook, err := s.webhook(ctx, connected[users/2:], costs["revoke"])
	if err != nil {
		return err
	}
	add("webhook", "", hook)
	if err := s.firstTouches(ctx, connected[:users/2], add); err != nil {
		return err
	}
	sizes, err := s.sizes(ctx)
	if err != nil {
		return err
	}
	if err := table.Flush(); err != nil {
		return err
	}
	users := sizes["users"] + sizes["user_addresses"] + sizes["connections"] + sizes["grant_directory"] + 3*sizes["audit_log"] +
		keptDays*sizes["daily_steps"] + keptRides*sizes["cycling_activities"]
	fmt.Fprintln(table, "\nusers\tlimiter\tGB\tGB in memory\trequests/s\tcores of servers\tof PostgreSQL\tof Redis\tWAL, GB a day\twith lz4\t")
	for _, n := range []float64{1e5, 1e6, 1e7, 1e8, 1e9} {
		limiter := "postgres"
		if n > 1e7 { // one machine does not carry them, and the limiter of a cluster is Redis
			limiter = "redis"
		}
		read := costs["steps"+limiter]
		inMemory := sizes["users"] + sizes["connections"] + 31*sizes["daily_steps"]
		perSecond := n * syncs / 86_400
		cores := func(of func(used) float64) float64 {
			return perSecond * (of(costs["refresh"]) + 2*of(read) + of(costs["day of steps"]) + of(hook)) / 1000
		}
		// A page of connections is changed several times between two checkpoints, and written whole once. A day of steps is inserted and
		// moved once, each of which changes a page of the index that is the user's own; then it is changed in place.
		log := func(compression string) float64 {
			pages := min(n*checkpoints*sizes["connections page"], n*syncs)
			return (pages*costs["refresh, first touch, "+compression].wal + (n*syncs-pages)*costs["refresh, again"].wal +
				n*(2*costs["day of steps, first touch, "+compression].wal+(syncs-2)*costs["day of steps"].wal) +
				n*syncs*(2*read.wal+hook.wal)) / 1e9
		}
		fmt.Fprintf(table, "%.0e\t%s\t%.1f\t%.1f\t%.0f\t%.2f\t%.2f\t%.2f\t%.0f\t%.0f\t\n", n, limiter, n*users/1e9, n*inMemory/1e9, 3*perSecond,
			cores(func(u used) float64 { return u.cpu }), cores(func(u used) float64 { return u.databaseCPU }), cores(func(u used) float64 { return u.redisCPU }), log("off"), log("lz4"))
	}
	fmt.Fprintln(table, "\ntable\tbytes a row, with its indexes\t")
	for _, name := range []string{"users", "user_addresses", "connections", "grant_directory", "audit_log", "daily_steps", "cycling_activities"} {
		fmt.Fprintf(table, "%s\t%.0f\t\n", name, sizes[name])
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return file.Close()
}

// sizes returns the bytes of a row of each table, with all indexes, and under "connections page" how many pages a connection takes.
func (s *stage) sizes(ctx context.Context) (map[string]float64, error) {
	for _, statement := range []string{"insert into user_addresses (address, user_id, email) select email, user_id, email from users", "vacuum analyze"} {
		if _, err := s.conn.Exec(ctx, statement); err != nil {
			return nil, err
		}
	}
	sizes := map[string]float64{}
	var name string
	var size float64
	rows, _ := s.conn.Query(ctx, `select relname, pg_total_relation_size(oid) / reltuples::float8 from pg_class where relkind = 'r' and reltuples > 0
		union all select 'connections page', relpages / reltuples::float8 from pg_class where relname = 'connections'`) // ForEachRow has its error
	_, err := pgx.ForEachRow(rows, []any{&name, &size}, func() error {
		sizes[name] = size
		return nil
	})
	return sizes, err
}

// firstTouches measures refreshes and days of steps that change pages for the first time since a checkpoint, with each kind of
// compression of the write-ahead log.
func (s *stage) firstTouches(ctx context.Context, connected []connection, add func(name, limiter string, u used)) error {
	const apart = 40 // connections, so that no two are on one page
	var spread []connection
	for n := 0; n < len(connected); n += apart {
		spread = append(spread, connected[n])
	}
	for round, compression := range []string{"off", "lz4"} {
		if err := s.exec(ctx, "alter system set wal_compression = "+compression, "select pg_reload_conf()", "checkpoint"); err != nil {
			return err
		}
		act := func() (int, error) { return len(spread), refresh(ctx, s.tls.endpoint, spread) }
		u, err := s.measureAct(ctx, act)
		if err != nil {
			return err
		}
		add("refresh, first touch, "+compression, "", u)
		if u, err = s.measureAct(ctx, func() (int, error) { return costRows, s.writeDays(ctx, round) }); err != nil {
			return err
		}
		add("day of steps, first touch, "+compression, "", u)
		if compression == "lz4" {
			if u, err = s.measureAct(ctx, act); err != nil {
				return err
			}
			add("refresh, again", "", u)
		}
	}
	u, err := s.measureAct(ctx, func() (int, error) {
		for round := range 10 {
			if err := s.writeDays(ctx, 2+round); err != nil {
				return 0, err
			}
		}
		return 10 * costRows, nil
	})
	add("day of steps", "", u)
	return err
}

// measureAct measures what an act uses for each of n things that it does.
func (s *stage) measureAct(ctx context.Context, act func() (n int, err error)) (u used, err error) {
	before, err := s.spent(ctx, s.tls)
	if err != nil {
		return u, err
	}
	n, err := act()
	if err != nil {
		return u, err
	}
	after, err := s.spent(ctx, s.tls)
	return after.since(before, n), err
}

// writeDays writes today's steps of users who are spread over all of them, by the operator API.
func (s *stage) writeDays(ctx context.Context, round int) error {
	var days []string
	for n := range costRows {
		days = append(days, fmt.Sprintf(`{"user_id": %q, "date": %q, "steps": %d}`, userID(n*users/costRows).String(), today().Format(time.DateOnly), 20_000+round))
	}
	_, _, err := s.tls.ask(ctx, http.MethodPost, "/operator/v1/activity", `{"daily_steps": [`+strings.Join(days, ", ")+`]}`, operatorHeader)
	return err
}
