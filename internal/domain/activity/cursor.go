package activity

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/refusal"
)

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

// position returns the time after which the next page begins.
func (t traversal) position() time.Time { return time.UnixMicro(t.Position).UTC() }

// sealCursor returns the cursor that continues a traversal. It is shorter than 400 characters.
func (s *Store) sealCursor(t traversal, sourceID string) (string, error) {
	payload, err := encodeCursor(t, sourceID)
	if err != nil {
		return "", err
	}
	return s.keys.Seal(credential.Cursor, payload)
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
	held, sourceID, err := decodeCursor(payload)
	if err != nil {
		return refuse("cursor was not issued by this service, or was altered")
	}
	now := time.UnixMicro(asked.Began)
	asked.Began, asked.Position = held.Began, held.Position
	if held != asked {
		return refuse("cursor belongs to another connection, or to another from, to or limit")
	}
	if !now.Before(time.UnixMicro(held.Began).Add(s.settings.CursorLifetime)) {
		return refuse("cursor has expired")
	}
	return held, sourceID, nil
}

func encodeCursor(t traversal, sourceID string) ([]byte, error) {
	payload, err := binary.Append(nil, binary.BigEndian, t)
	return append(payload, sourceID...), err
}

// decodeCursor reverses encodeCursor, and refuses any other payload.
func decodeCursor(payload []byte) (t traversal, sourceID string, err error) {
	n, err := binary.Decode(payload, binary.BigEndian, &t)
	if rest := len(payload) - n; err != nil || t.Format != cursorFormat || rest < 1 || rest > maxSourceID {
		return traversal{}, "", fmt.Errorf("activity: cursor payload of %d bytes", len(payload))
	}
	return t, string(payload[n:]), nil
}
