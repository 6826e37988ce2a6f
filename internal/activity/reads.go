package activity

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/google/uuid"
)

// The errors of a read, in the words of specification 7.4. Any other error is 503 data_unavailable.
var (
	ErrDateRange     = errors.New("invalid date range")
	ErrInvalidCursor = errors.New("invalid cursor")
)

// Reader is who reads whose activity, as the access token and its connection say.
type Reader struct {
	UserID, ClientID  uuid.UUID
	ConnectionVersion int64
	HistoryFrom       time.Time // first readable date of the connection: midnight UTC
	RegisteredOn      time.Time // the user's registration day: midnight UTC
	Now               time.Time // by the database's clock
}

// Steps of one date (specification 2.5).
type Steps struct {
	Date  time.Time // midnight UTC
	Steps int64     // recorded and corrected, 0 or more
}

// CyclingDay is the distance of the rides that started on one date (specification 2.6).
type CyclingDay struct {
	Date           time.Time // midnight UTC
	DistanceMeters int64     // recorded and adjusted, 0 or more
}

// Ride is a cycling activity as a partner sees it (specification 2.7).
type Ride struct {
	ID             string     // ca_ and 43 characters: the same for this ride, user and client, always
	StartTime      time.Time  // what a clock showed, unzoned, in UTC here; the ride is one of this date
	EndTime        *time.Time // the same; nil when unknown
	DistanceMeters int64
}

// Page of rides. NextCursor is empty on the last page.
type Page struct {
	NextCursor string
	rows       []rideRow
	id         func(sourceID string) string
}

// Rides yields the rides of the page, oldest first. Each is made when it is asked for: nobody needs all of them at once.
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

// CyclingPage returns the rides that started in a range, oldest first: at most limit (1 to 500) of them from the start
// of the range or, with a cursor, from the end of the page that handed it out. A cursor that was not handed out for
// this reader, range and limit, or is too old, is [ErrInvalidCursor].
func (s *Store) CyclingPage(ctx context.Context, reader Reader, dates Range, limit int, cursor string) (Page, error) {
	at := traversal{reader: reader, dates: dates, limit: limit, began: reader.Now, position: position{time: dates.From}}
	if cursor != "" {
		var err error
		if at, err = s.resume(at, cursor); err != nil {
			return Page{}, err
		}
	}
	// One ride more than fits the page tells whether another page follows.
	rows, err := s.readRides(ctx, reader.UserID, at.position, dates.until(), limit+1)
	if err != nil {
		return Page{}, err
	}
	page := Page{id: func(sourceID string) string { return s.rideID(sourceID, reader) }}
	if len(rows) > limit {
		rows = rows[:limit]
		at.position = position{time: rows[limit-1].StartTime, sourceID: rows[limit-1].SourceID}
		if page.NextCursor, err = s.sealCursor(at); err != nil {
			return Page{}, fmt.Errorf("activity: %w", err)
		}
	}
	page.rows = rows
	return page, nil
}

// rideID is the id of a ride that only this client knows, and that no partner can trace back to the source.
func (s *Store) rideID(sourceID string, reader Reader) string {
	id := s.keys.PRF("cycling-activity", []byte(sourceID), reader.UserID[:], reader.ClientID[:])
	var text [46]byte
	base64.RawURLEncoding.Encode(text[copy(text[:], "ca_"):], id[:])
	return string(text[:])
}
