package account

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	_ "time/tzdata" // for machines without a time zone database

	"github.com/jackc/pgx/v5"
)

// timezones are the names of time zones that both Go and PostgreSQL know, which calculate with them. PostgreSQL reads its
// whole time zone database to list them, so they are asked for once and held from then on.
type timezones struct {
	names atomic.Pointer[map[string]bool] // nil until they are known
}

// known returns the names. Callers do not change them. Several callers may list them before the first one is done: none waits for
// another, which may have longer to wait for the database.
func (z *timezones) known(ctx context.Context, list func(context.Context) ([]string, error)) (map[string]bool, error) {
	if names := z.names.Load(); names != nil {
		return *names, nil
	}
	listed, err := list(ctx)
	if err != nil {
		return nil, fmt.Errorf("account: list the time zones: %w", err)
	}
	names := make(map[string]bool, len(listed))
	for _, name := range listed {
		if isPortable(name) {
			_, err := time.LoadLocation(name)
			names[name] = err == nil
		}
	}
	z.names.Store(&names)
	return names, nil
}

// isPortable refuses names that not every machine's database has, or that mean another zone on each machine. Go takes "" for
// UTC and "Local" for the machine's own.
func isPortable(name string) bool {
	for _, prefix := range []string{"posix/", "right/", "posixrules", "localtime"} {
		if strings.HasPrefix(name, prefix) {
			return false
		}
	}
	return name != "" && name != "Local"
}

// listTimezones lists exact names: "at time zone" would also accept abbreviations, offsets and any case. The query is not
// generated, because sqlc does not know the view.
func (s store) listTimezones(ctx context.Context) ([]string, error) {
	rows, err := s.pool.Query(ctx, "select name from pg_timezone_names")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
