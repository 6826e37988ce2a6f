package activity

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/credential"
	"connect-svc/internal/refusal"
)

// position is a place in the order of a user's rides: after a ride or, without a source id, before all rides of that time.
type position struct {
	time     time.Time
	sourceID string
}

// traversal is a walk over the pages of one query.
type traversal struct {
	reader   Reader
	dates    Range
	limit    int
	began    time.Time // when its first page was read
	position position
}

// cursorHead is the content of a cursor, without the source id of its position, which follows it in the payload. Times are
// microseconds since 1970, as exact as PostgreSQL's.
type cursorHead struct {
	Format            uint8
	UserID, ClientID  uuid.UUID
	ConnectionVersion int64
	From, To          int64
	Limit             uint16
	Began, Position   int64
}

// cursorFormat is the first byte of the payload.
const cursorFormat = 1

func (t traversal) cursorHead() cursorHead {
	return cursorHead{
		Format: cursorFormat,
		UserID: t.reader.UserID, ClientID: t.reader.ClientID, ConnectionVersion: t.reader.ConnectionVersion,
		From: t.dates.From.UnixMicro(), To: t.dates.To.UnixMicro(),
		Limit: uint16(t.limit), //nolint:gosec // at most 500
		Began: t.began.UnixMicro(), Position: t.position.time.UnixMicro(),
	}
}

// sealCursor returns the cursor that continues at a traversal's position. It is shorter than 400 characters.
func (s *Store) sealCursor(t traversal) (string, error) {
	payload, err := encodeCursor(t.cursorHead(), t.position.sourceID)
	if err != nil {
		return "", err
	}
	return s.keys.Seal(credential.Cursor, payload)
}

// resume returns the traversal of a cursor. It must be one of the same query (user, client, connection version, dates and limit) and
// have begun within the lifetime (specification 3.3). Otherwise the error is [ErrInvalidCursor].
func (s *Store) resume(asked traversal, cursor string) (traversal, error) {
	refuse := func(reason string) (traversal, error) { return traversal{}, refusal.Because(ErrInvalidCursor, reason) }
	payload, err := s.keys.Open(credential.Cursor, cursor)
	if err != nil {
		return refuse("cursor was not issued by this service, or was altered")
	}
	held, sourceID, err := decodeCursor(payload)
	if err != nil {
		return refuse("cursor was not issued by this service, or was altered")
	}
	asked.began = time.UnixMicro(held.Began).UTC()
	asked.position = position{time.UnixMicro(held.Position).UTC(), sourceID}
	if held != asked.cursorHead() {
		return refuse("cursor belongs to another connection, or to another from, to or limit")
	}
	if !asked.reader.Now.Before(asked.began.Add(s.settings.CursorLifetime)) {
		return refuse("cursor has expired")
	}
	return asked, nil
}

func encodeCursor(head cursorHead, sourceID string) ([]byte, error) {
	payload, err := binary.Append(nil, binary.BigEndian, head)
	return append(payload, sourceID...), err
}

// decodeCursor reverses encodeCursor, and refuses any other payload.
func decodeCursor(payload []byte) (head cursorHead, sourceID string, err error) {
	n, err := binary.Decode(payload, binary.BigEndian, &head)
	if rest := len(payload) - n; err != nil || head.Format != cursorFormat || rest < 1 || rest > maxSourceID {
		return cursorHead{}, "", fmt.Errorf("activity: cursor payload of %d bytes", len(payload))
	}
	return head, string(payload[n:]), nil
}
