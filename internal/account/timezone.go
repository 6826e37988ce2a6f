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

// timezones are the names of time zones that both Go and PostgreSQL know. PostgreSQL reads its whole time zone database to list them,
// so they are read once.
type timezones struct {
	names atomic.Pointer[map[string]bool] // nil until they are read
}

// known returns the names. Callers must not change them. Concurrent callers may each read them: none waits for another one, which may
// have a later deadline.
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

// isPortable refuses names that some machines lack or that differ between machines. Go takes "" for UTC, and "Local" for the machine's
// own zone.
func isPortable(name string) bool {
	for _, prefix := range []string{"posix/", "right/", "posixrules", "localtime"} {
		if strings.HasPrefix(name, prefix) {
			return false
		}
	}
	return name != "" && name != "Local"
}

// listTimezones returns the exact names. "at time zone" would also accept abbreviations, offsets and any case. sqlc cannot generate the
// query, because it does not know the view.
func (a *Accounts) listTimezones(ctx context.Context) ([]string, error) {
	rows, err := a.pool.Query(ctx, "select name from pg_timezone_names")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
