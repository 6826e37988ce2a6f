package activity

import (
	"bytes"
	"testing"

	"github.com/google/uuid"
)

// Whatever is decoded is exactly what was encoded: no two payloads mean the same cursor.
func FuzzDecodeCursor(f *testing.F) {
	valid := encodeCursor(traversal{
		reader:   Reader{UserID: uuid.New(), ClientID: uuid.New(), ConnectionVersion: 3},
		limit:    100,
		position: position{sourceID: "source-1"},
	})
	f.Add(valid)
	f.Add(valid[:cursorHead])
	f.Add(append(bytes.Clone(valid), make([]byte, maxSourceID)...))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, payload []byte) {
		held, err := decodeCursor(payload)
		if err != nil {
			return
		}
		if n := len(held.position.sourceID); n < 1 || n > maxSourceID {
			t.Errorf("source id of %d bytes", n)
		}
		if again := encodeCursor(held); !bytes.Equal(again, payload) {
			t.Errorf("%x was decoded to %+v, which is encoded as %x", payload, held, again)
		}
	})
}
