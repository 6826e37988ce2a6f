package activity

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"time"

	activitydb "connect-svc/gen/db/activity"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/postgres/replica"
	"connect-svc/internal/foundation/refusal"
	"github.com/google/uuid"
)

// The errors of a read, named as in specification 7.4. Any other error is 503 data_unavailable.
var (
	ErrDateRange     = errors.New("invalid date range")
	ErrInvalidCursor = errors.New("invalid cursor")
)

// Reader names the client that reads and the user whose activity it reads, from the access token and its connection.
type Reader struct {
	UserID, ClientID  uuid.UUID
	ConnectionVersion int64
	HistoryFrom       time.Time // first readable date of the connection: midnight UTC
	RegisteredOn      time.Time // the user's registration day: midnight UTC
	Now               time.Time // by the database's clock
}

// Steps of one date (specification 2.5): recorded and corrected, 0 or more. The date is midnight UTC.
type Steps = activitydb.ReadDailyStepsRow

// CyclingDay is the distance of the rides that started on one date (specification 2.6): recorded and adjusted, 0 or more. The date is
// midnight UTC.
type CyclingDay = activitydb.ReadCyclingDailyRow

// Ride is a cycling activity as a partner sees it (specification 2.7).
type Ride struct {
	ID             string     // ca_ and 43 characters: always the same for this ride, user and client
	StartTime      time.Time  // unzoned recorded clock, held as UTC; its date is the date of the ride
	EndTime        *time.Time // the same; nil when unknown
	DistanceMeters int64
}

// Page of rides. NextCursor is empty on the last page.
type Page struct {
	NextCursor string
	rows       []rideRow
	id         func(sourceID string) string
}

// Rides yields the rides of the page, oldest first. Each is made on demand, because a page may have 500.
func (p Page) Rides() iter.Seq[Ride] {
	return func(yield func(Ride) bool) {
		for i := range p.rows {
			row := &p.rows[i]
			ride := Ride{ID: p.id(row.SourceID), StartTime: row.StartTime, DistanceMeters: int64(row.DistanceMeters)}
			if row.EndTime.Valid {
				ride.EndTime = &row.EndTime.Time
			}
			if !yield(ride) {
				return
			}
		}
	}
}

// DailySteps returns the recorded dates of a range, oldest first: at most 31.
func (s *Store) DailySteps(ctx context.Context, userID uuid.UUID, dates Range) ([]Steps, error) {
	return read(ctx, s, (*activitydb.Queries).ReadDailySteps, activitydb.ReadDailyStepsParams{
		UserID: userID, FirstDate: dates.From, LastDate: dates.To,
	})
}

// CyclingDaily returns the dates of a range on which rides started, oldest first: at most 31.
func (s *Store) CyclingDaily(ctx context.Context, userID uuid.UUID, dates Range) ([]CyclingDay, error) {
	return read(ctx, s, (*activitydb.Queries).ReadCyclingDaily, activitydb.ReadCyclingDailyParams{
		UserID: userID, Since: dates.From, Until: dates.until(),
	})
}

// CyclingPage returns the rides that started in a range, oldest first: at most limit (1 to 500) of them from the start
// of the range or, with a cursor, from the end of the page that returned it. A cursor of another reader, range or limit, or one
// that has expired, is [ErrInvalidCursor].
func (s *Store) CyclingPage(ctx context.Context, reader Reader, dates Range, limit int, cursor string) (Page, error) {
	at, sourceID := begin(reader, dates, limit), ""
	if cursor != "" {
		var err error
		if at, sourceID, err = s.resume(at, cursor); err != nil {
			return Page{}, err
		}
	}
	// One ride more than fits the page tells whether another page follows. The pages of a traversal may come from different replicas:
	// a position means the same in each of them.
	rows, err := read(ctx, s, (*activitydb.Queries).ReadCyclingActivities, activitydb.ReadCyclingActivitiesParams{
		UserID: reader.UserID, AfterTime: time.UnixMicro(at.Position).UTC(), AfterSourceID: sourceID, Until: dates.until(),
		MaxRows: int32(limit + 1), //nolint:gosec // at most 501
	})
	if err != nil {
		return Page{}, err
	}
	page := Page{id: func(sourceID string) string { return s.rideID(sourceID, reader) }}
	if len(rows) > limit {
		rows = rows[:limit]
		at.Position = rows[limit-1].StartTime.UnixMicro()
		page.NextCursor, err = s.keys.Seal(credential.Cursor, at, []byte(rows[limit-1].SourceID)) // it is shorter than 400 characters
		if err != nil {
			return Page{}, fmt.Errorf("activity: %w", err)
		}
	}
	page.rows = rows
	return page, nil
}

// rideID returns the id of a ride that only this client knows, and that no partner can trace back to the source.
func (s *Store) rideID(sourceID string, reader Reader) string {
	id := s.keys.PRF("cycling-activity", []byte(sourceID), reader.UserID[:], reader.ClientID[:])
	var text [46]byte
	base64.RawURLEncoding.Encode(text[copy(text[:], "ca_"):], id[:])
	return string(text[:])
}

type rideRow = activitydb.ReadCyclingActivitiesRow

// read runs a query on a replica that is recent enough, or else on the primary.
func read[Params, Row any](
	ctx context.Context, s *Store, query func(*activitydb.Queries, context.Context, Params) ([]Row, error), params Params,
) ([]Row, error) {
	rows, err := replica.Read(ctx, s.pool, s.settings.Replicas, func(ctx context.Context, pool *postgres.Pool) ([]Row, error) {
		return query(activitydb.New(pool), ctx, params)
	})
	return rows, postgres.Wrap("activity: read", err)
}

// traversal is a walk over the pages of one query, up to a position in the order of a user's rides. A cursor holds it, and after it the
// source id of the last ride before the position: no source id stands for a position before all rides of its time. Times are
// microseconds since 1970, with the precision of PostgreSQL.
type traversal struct {
	Format            uint8
	UserID, ClientID  uuid.UUID
	ConnectionVersion int64
	From, To          int64
	Limit             uint16
	Began, Position   int64 // Began: when the first page was read
}

// cursorFormat is the first byte of the payload.
const cursorFormat = 1

func begin(reader Reader, dates Range, limit int) traversal {
	return traversal{
		Format: cursorFormat,
		UserID: reader.UserID, ClientID: reader.ClientID, ConnectionVersion: reader.ConnectionVersion,
		From: dates.From.UnixMicro(), To: dates.To.UnixMicro(),
		Limit: uint16(limit), //nolint:gosec // at most 500
		Began: reader.Now.UnixMicro(), Position: dates.From.UnixMicro(),
	}
}

// resume returns the traversal and the source id of a cursor. It must be one of the same query (user, client, connection version, dates
// and limit) and have begun within the lifetime (specification 3.3). Otherwise the error is [ErrInvalidCursor].
func (s *Store) resume(asked traversal, cursor string) (traversal, string, error) {
	refuse := func(reason string) (traversal, string, error) {
		return traversal{}, "", refusal.Because(ErrInvalidCursor, reason)
	}
	payload, err := s.keys.Open(credential.Cursor, cursor)
	if err != nil {
		return refuse("cursor was not issued by this service, or was altered")
	}
	start, sourceID, err := decodeCursor(payload)
	if err != nil {
		return refuse("cursor was not issued by this service, or was altered")
	}
	now := time.UnixMicro(asked.Began)
	asked.Began, asked.Position = start.Began, start.Position
	if start != asked {
		return refuse("cursor belongs to another connection, or to another from, to or limit")
	}
	if !now.Before(time.UnixMicro(start.Began).Add(s.settings.CursorLifetime)) {
		return refuse("cursor has expired")
	}
	return start, sourceID, nil
}

// decodeCursor reads what a cursor holds, and refuses any other payload.
func decodeCursor(payload []byte) (t traversal, sourceID string, err error) {
	n, err := binary.Decode(payload, binary.BigEndian, &t)
	if rest := len(payload) - n; err != nil || t.Format != cursorFormat || rest < 1 || rest > maxSourceID {
		return traversal{}, "", fmt.Errorf("activity: cursor payload of %d bytes", len(payload))
	}
	return t, string(payload[n:]), nil
}
