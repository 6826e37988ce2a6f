package activity

import (
	"context"
	"encoding/base64"
	"fmt"
	"iter"
	"time"

	"github.com/google/uuid"
)

// Steps of one date (specification 2.5).
type Steps struct {
	Date  time.Time // midnight UTC
	Steps int64     // recorded and corrected, 0 or more
}

// DailySteps returns the dates of a range that have a record, oldest first: at most 31.
func (a *Activity) DailySteps(ctx context.Context, userID uuid.UUID, dates Range) ([]Steps, error) {
	rows, err := a.readDailySteps(ctx, userID, dates)
	if err != nil {
		return nil, fmt.Errorf("activity: read daily steps: %w", err)
	}
	steps := make([]Steps, len(rows))
	for i, row := range rows {
		steps[i] = Steps(row)
	}
	return steps, nil
}

// CyclingDay is the distance of the rides that started on one date (specification 2.6).
type CyclingDay struct {
	Date           time.Time // midnight UTC
	DistanceMeters int64     // recorded and adjusted, 0 or more
}

// CyclingDaily returns the dates of a range on which rides started, oldest first: at most 31.
func (a *Activity) CyclingDaily(ctx context.Context, userID uuid.UUID, dates Range) ([]CyclingDay, error) {
	rows, err := a.readCyclingDaily(ctx, userID, dates)
	if err != nil {
		return nil, fmt.Errorf("activity: read daily cycling: %w", err)
	}
	days := make([]CyclingDay, len(rows))
	for i, row := range rows {
		days[i] = CyclingDay(row)
	}
	return days, nil
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

// Rides are those of the page, oldest first. They are made one by one: nobody needs all of them twice.
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
func (a *Activity) CyclingPage(
	ctx context.Context, reader Reader, dates Range, limit int, cursor string,
) (Page, error) {
	at := traversal{reader: reader, dates: dates, limit: limit, began: reader.Now, position: position{time: dates.From}}
	if cursor != "" {
		var err error
		if at, err = a.resume(at, cursor); err != nil {
			return Page{}, err
		}
	}
	// One more than the page shows whether another one follows.
	rows, err := a.readCyclingActivities(ctx, reader.UserID, at.position, dates.until(), limit+1)
	if err != nil {
		return Page{}, fmt.Errorf("activity: read cycling activities: %w", err)
	}
	page := Page{id: func(sourceID string) string { return a.rideID(sourceID, reader) }}
	if len(rows) > limit {
		rows = rows[:limit]
		at.position = position{time: rows[limit-1].StartTime, sourceID: rows[limit-1].SourceID}
		if page.NextCursor, err = a.sealCursor(at); err != nil {
			return Page{}, fmt.Errorf("activity: %w", err)
		}
	}
	page.rows = rows
	return page, nil
}

// rideID is the name of a ride that only this client knows, and that no partner can lead back to the source.
func (a *Activity) rideID(sourceID string, reader Reader) string {
	id := a.keys.PRF("cycling-activity", []byte(sourceID), reader.UserID[:], reader.ClientID[:])
	var text [46]byte
	base64.RawURLEncoding.Encode(text[copy(text[:], "ca_"):], id[:])
	return string(text[:])
}
