package oauth

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	oauthdb "connect-svc/gen/db/oauth"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/timezone"
	"connect-svc/internal/foundation/work"
)

// Act is the last act on a connection, as the audit log of a database with later commits has it.
type Act struct {
	UserID, ClientID uuid.UUID
	Version          int64
	Action           string // connection.authorized, connection.revoked or connection.disconnected
	Actor, Reason    string
	Scopes           scope.Set // of an authorization
	At               time.Time
	// Until is At, or the time of an earlier authorization that is later than At: the clock was behind when the connection ended.
	Until time.Time
}

// Replay brings connections that a restore or a failover has set back to where acts left them, in parts, and returns how many changed by
// each action. It skips acts that the database has, and those on connections that have changed since. It may be repeated. Refresh tokens of
// replayed authorizations work again, see [Server.Refresh]. An ended connection sends its event.
func Replay(ctx context.Context, pool *postgres.Pool, acts []Act) (map[string]int64, error) {
	const perStatement = 1000
	changed, queries := map[string]int64{}, oauthdb.New(pool)
	for part := range slices.Chunk(acts, perStatement) {
		users := postgres.Map(part, func(a Act) uuid.UUID { return a.UserID })
		zones, err := queries.ListTimezones(ctx, users)
		if err != nil {
			return changed, postgres.Wrap("replay", err)
		}
		locations := map[uuid.UUID]*time.Location{}
		for _, zone := range zones {
			locations[zone.UserID] = timezone.Location(zone.Timezone)
		}
		rows, err := queries.ReplayActs(ctx, oauthdb.ReplayActsParams{
			UserIds:   users,
			ClientIds: postgres.Map(part, func(a Act) uuid.UUID { return a.ClientID }),
			Versions:  postgres.Map(part, func(a Act) int64 { return a.Version }),
			Actions:   postgres.Map(part, func(a Act) string { return a.Action }),
			Actors:    postgres.Map(part, func(a Act) string { return a.Actor }),
			Reasons:   postgres.Map(part, func(a Act) string { return a.Reason }),
			Scopes:    postgres.Map(part, func(a Act) int16 { return int16(a.Scopes) }),
			Instants:  postgres.Map(part, func(a Act) time.Time { return a.At }),
			Days: postgres.Map(part, func(a Act) time.Time {
				return timezone.Day(a.At.In(cmp.Or(locations[a.UserID], time.UTC))) // a user who was deleted has no connection either
			}),
			// Times may be rounded down to milliseconds.
			Befores: postgres.Map(part, func(a Act) time.Time { return a.Until.Add(time.Millisecond) }),
			Actor:   work.Actor(ctx),
		})
		if err != nil {
			return changed, postgres.Wrap("replay", err)
		}
		for _, row := range rows {
			changed[row.Action] += row.Connections
		}
	}
	return changed, nil
}
