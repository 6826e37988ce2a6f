package activity

import (
	"bytes"
	"testing"

	"github.com/google/uuid"
)

// Decoding returns exactly what was encoded: no two payloads mean the same cursor.
func FuzzDecodeCursor(f *testing.F) {
	head := begin(Reader{UserID: uuid.New(), ClientID: uuid.New(), ConnectionVersion: 3}, Range{}, 100)
	valid, err := encodeCursor(head, "source-1")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(valid)
	f.Add(bytes.TrimSuffix(valid, []byte("source-1")))
	f.Add(append(bytes.Clone(valid), make([]byte, maxSourceID)...))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, payload []byte) {
		held, sourceID, err := decodeCursor(payload)
		if err != nil {
			return
		}
		if n := len(sourceID); n < 1 || n > maxSourceID {
			t.Errorf("source id of %d bytes", n)
		}
		if again, err := encodeCursor(held, sourceID); err != nil || !bytes.Equal(again, payload) {
			t.Errorf("%x was decoded to %+v %q, which is encoded as %x, %v", payload, held, sourceID, again, err)
		}
	})
}
