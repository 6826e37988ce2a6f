//go:build faults

package storm

import (
	"context"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// foldedDays compares the figures of each day with the audit log, whose acts they count, by client and in all. The storm's own time has no
// other day than these: acts of a moment at which the clock was wrong are left out.
const foldedDays = `with days as (
		select d::date as day from generate_series((connect_now() at time zone 'UTC')::date - 1, (connect_now() at time zone 'UTC')::date, interval '1 day') d
	), acts as (
		select client_id, (at at time zone 'UTC')::date as day, count(*) as n from audit_log
		where action = 'connection.authorized' group by grouping sets ((client_id, (at at time zone 'UTC')::date), ((at at time zone 'UTC')::date))
	)
	select coalesce(sum(a.n) filter (where a.client_id is not null), 0)::int,
		count(*) filter (where a.n is distinct from u.n)::int
	from days join acts a using (day)
	full join (select nullif(client_id, '00000000-0000-0000-0000-000000000000') as client_id, day, n from usage_days join days using (day)
		where metric = 'authorized') u on u.day = a.day and u.client_id is not distinct from a.client_id`

// checkDays: each exchange is in the figures of its day, once. Servers fold the days some seconds after their start.
func (s *storm) checkDays(ctx context.Context, conn *pgx.Conn) {
	s.Helper()
	for _, one := range s.servers {
		if _, err := one.end(syscall.SIGTERM); err != nil {
			s.Fatal(err)
		}
		if err := one.start(ctx); err != nil {
			s.Fatal(err)
		}
	}
	acts := 0
	s.until("the figures of the days are those of the audit log", func(ctx context.Context) (bool, error) {
		var differ int
		err := conn.QueryRow(ctx, foldedDays).Scan(&acts, &differ)
		return differ == 0, err
	})
	s.sum.fact("%d exchanges are in the figures of their days", acts)
}
