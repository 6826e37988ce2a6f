package account

import (
	"context"
	"time"

	"github.com/google/uuid"

	accountdb "connect-svc/gen/db/account"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/timezone"
)

// zoneOf returns the time zone of a user. It is nil if it cannot be read, and without a user, for whom the same statement runs.
func (a *Accounts) zoneOf(ctx context.Context, userID *uuid.UUID) *time.Location {
	if userID == nil {
		userID = new(uuid.UUID)
	}
	name, err := a.queries.GetTimezone(ctx, *userID)
	if err != nil {
		return nil
	}
	return timezone.Location(name)
}

// UnknownTimezones returns the names of time zones that neither the program nor this machine knows, and how many users have them. A user's
// day is that of UTC then. It reads all users.
func UnknownTimezones(ctx context.Context, pool *postgres.Pool) (names []string, users int64, err error) {
	counts, err := accountdb.New(pool).CountTimezones(ctx)
	for _, count := range counts {
		if !timezone.IsKnown(count.Timezone) {
			names, users = append(names, count.Timezone), users+count.Users
		}
	}
	return names, users, postgres.Wrap("account: count time zones", err)
}
