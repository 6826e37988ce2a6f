package account

import (
	"context"
	"fmt"
	"regexp"
	"time"
	_ "time/tzdata" // for machines without a time zone database

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// timezones returns the names of time zones that both Go and PostgreSQL know. Callers must not change them. PostgreSQL reads its whole
// time zone database to list them, so they are read once. Concurrent first callers may each read them: none waits for another one, which
// may have a later deadline.
func (a *Accounts) timezones(ctx context.Context) (map[string]bool, error) {
	if names := a.zones.Load(); names != nil {
		return *names, nil
	}
	// The view has exact names. "at time zone" would also accept abbreviations, offsets and any case. sqlc does not know the view.
	rows, err := a.pool.Query(ctx, "select name from pg_timezone_names")
	if err != nil {
		return nil, fmt.Errorf("account: list the time zones: %w", err)
	}
	listed, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("account: list the time zones: %w", err)
	}
	names := portable(listed)
	a.zones.Store(&names)
	return names, nil
}

// zoneOf returns the time zone of a user. It is nil if the user's node is away, or without a user, for whom the same statement runs.
func (a *Accounts) zoneOf(ctx context.Context, userID *uuid.UUID) *time.Location {
	if userID == nil {
		userID = new(uuid.UUID)
	}
	name, err := a.queries.GetTimezone(ctx, *userID)
	zone, unknown := time.LoadLocation(name)
	if err != nil || unknown != nil {
		return nil
	}
	return zone
}

// unportable matches names that some machines lack or that differ between machines. Go takes "" for UTC, and "Local" for the machine's
// own zone.
var unportable = regexp.MustCompile("^(posix/|right/|posixrules|localtime|Local$|$)")

// portable returns the names that mean the same everywhere and that Go knows.
func portable(listed []string) map[string]bool {
	names := make(map[string]bool, len(listed))
	for _, name := range listed {
		if _, err := time.LoadLocation(name); err == nil && !unportable.MatchString(name) {
			names[name] = true
		}
	}
	return names
}
