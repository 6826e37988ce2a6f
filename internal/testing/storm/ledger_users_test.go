//go:build faults

package storm

import (
	"context"
	"slices"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// user is somebody with an address, and what the operator was told of them.
type user struct {
	id uuid.UUID

	mu      sync.Mutex
	email   string
	maybe   []string // addresses that it may have got without an answer
	created bool
	leaving bool // the deletion was asked for
	deleted bool
}

func (u *user) address() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.email
}

func (u *user) isLeaving() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.leaving
}

func newEmail() string { return "user-" + uuid.NewString() + "@users.example" }

// checkUsers: there is who was created and not deleted, with the address that was acknowledged last, and nobody else.
func (s *storm) checkUsers(ctx context.Context, conn *pgx.Conn) {
	type account struct{ email, address, timezone, registered string }
	there := map[uuid.UUID]account{}
	rows, err := conn.Query(ctx, `select u.user_id, u.email, coalesce(a.email, ''), u.timezone, u.registered_on::text
		from users u left join user_addresses a on a.user_id = u.user_id`)
	if err != nil {
		s.Fatal(err)
	}
	var id uuid.UUID
	var is account
	if _, err := pgx.ForEachRow(rows, []any{&id, &is.email, &is.address, &is.timezone, &is.registered}, func() error {
		if _, twice := there[id]; twice {
			s.Error("a user has two addresses")
		}
		there[id] = is
		return nil
	}); err != nil {
		s.Fatal(err)
	}
	deleted, unknown := 0, 0
	for _, u := range s.book.users {
		is, here := there[u.id]
		delete(there, u.id)
		switch {
		case u.deleted:
			deleted++
			if here {
				s.Error("a user whose deletion was acknowledged is there")
			}
		case !here:
			unknown++
			if u.created && !u.leaving {
				s.Error("a user whose creation was acknowledged is not there")
			}
		case is.email != u.email && !slices.Contains(u.maybe, is.email):
			s.Error("a user has another address than the last one that was acknowledged")
		case is.address != is.email || is.timezone != "UTC" || is.registered != "2020-01-01":
			s.Error("a user is not as created")
		}
	}
	if len(there) != s.before {
		s.Errorf("%d users are there whom nobody created", len(there)-s.before)
	}
	left, err := query[int](ctx, s.database, "select count(*) from user_addresses a where not exists (select from users u where u.user_id = a.user_id)")
	if err != nil || left > 0 {
		s.Errorf("%d addresses of nobody: %v", left, err)
	}
	s.sum.fact("%d users: %d deleted, %d not there and never acknowledged", len(s.book.users), deleted, unknown)
}
