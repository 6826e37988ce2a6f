package activity

import (
	"encoding/binary"
	"fmt"
	"time"

	"connect-svc/internal/credential"
)

// position is a place in the order of a user's rides: right after a ride, or, without a source id, before all rides of
// that time.
type position struct {
	time     time.Time
	sourceID string
}

// traversal is a walk over the pages of one query, and what a cursor holds.
type traversal struct {
	reader   Reader // user, client and connection version
	dates    Range
	limit    int
	began    time.Time // when its first page was read
	position position
}

// cursorFormat is the first byte of the payload.
const cursorFormat = 1

// cursorHead is the length of the payload up to the source id, which ends it.
const cursorHead = 1 + 16 + 16 + 8 + 8 + 8 + 2 + 8 + 8

// sealCursor makes the cursor that goes on at a traversal's position. It is shorter than 400 characters.
func (a *Activity) sealCursor(t traversal) (string, error) {
	return a.keys.Seal(credential.Cursor, encodeCursor(t))
}

func encodeCursor(t traversal) []byte {
	payload := make([]byte, 0, cursorHead+len(t.position.sourceID))
	payload = append(payload, cursorFormat)
	payload = append(payload, t.reader.UserID[:]...)
	payload = append(payload, t.reader.ClientID[:]...)
	payload = binary.BigEndian.AppendUint64(payload, uint64(t.reader.ConnectionVersion)) //nolint:gosec // bits
	payload = appendTime(payload, t.dates.From)
	payload = appendTime(payload, t.dates.To)
	payload = binary.BigEndian.AppendUint16(payload, uint16(t.limit)) //nolint:gosec // at most 500
	payload = appendTime(payload, t.began)
	payload = appendTime(payload, t.position.time)
	return append(payload, t.position.sourceID...)
}

// resume goes on where cursor says, in a traversal of the same query: same user, client, connection version, dates and
// limit, and begun no longer ago than the lifetime (specification 3.3). Anything else is [ErrInvalidCursor].
func (a *Activity) resume(asked traversal, cursor string) (traversal, error) {
	payload, err := a.keys.Open(credential.Cursor, cursor)
	if err != nil {
		return traversal{}, ErrInvalidCursor
	}
	held, err := decodeCursor(payload)
	if err != nil {
		return traversal{}, ErrInvalidCursor
	}
	if held.reader.UserID != asked.reader.UserID || held.reader.ClientID != asked.reader.ClientID ||
		held.reader.ConnectionVersion != asked.reader.ConnectionVersion ||
		!held.dates.From.Equal(asked.dates.From) || !held.dates.To.Equal(asked.dates.To) || held.limit != asked.limit ||
		!asked.reader.Now.Before(held.began.Add(a.settings.CursorLifetime)) {
		return traversal{}, ErrInvalidCursor
	}
	asked.began, asked.position = held.began, held.position
	return asked, nil
}

// decodeCursor reads what encodeCursor wrote and nothing else.
func decodeCursor(payload []byte) (traversal, error) {
	if len(payload) <= cursorHead || len(payload) > cursorHead+maxSourceID || payload[0] != cursorFormat {
		return traversal{}, fmt.Errorf("activity: cursor payload of %d bytes", len(payload))
	}
	take := func(n int) []byte {
		field := payload[:n]
		payload = payload[n:]
		return field
	}
	take(1)
	var t traversal
	copy(t.reader.UserID[:], take(16))
	copy(t.reader.ClientID[:], take(16))
	t.reader.ConnectionVersion = int64(binary.BigEndian.Uint64(take(8))) //nolint:gosec // bits
	t.dates = Range{From: readTime(take(8)), To: readTime(take(8))}
	t.limit = int(binary.BigEndian.Uint16(take(2)))
	t.began = readTime(take(8))
	t.position = position{time: readTime(take(8)), sourceID: string(payload)}
	return t, nil
}

// Times are microseconds, as exact as PostgreSQL's.

func appendTime(to []byte, t time.Time) []byte {
	return binary.BigEndian.AppendUint64(to, uint64(t.UnixMicro())) //nolint:gosec // bits
}

func readTime(from []byte) time.Time {
	return time.UnixMicro(int64(binary.BigEndian.Uint64(from))).UTC() //nolint:gosec // bits
}
