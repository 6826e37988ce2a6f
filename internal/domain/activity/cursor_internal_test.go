package activity

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/google/uuid"
)

// Decoding returns exactly what was encoded: no two payloads mean the same cursor.
func FuzzDecodeCursor(f *testing.F) {
	head := begin(Reader{UserID: uuid.New(), ClientID: uuid.New(), ConnectionVersion: 3}, Range{}, 100)
	encode := func(t traversal, sourceID string) []byte {
		payload, err := binary.Append(nil, binary.BigEndian, t)
		if err != nil {
			panic(err)
		}
		return append(payload, sourceID...)
	}
	valid := encode(head, "source-1")
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
		if again := encode(held, sourceID); !bytes.Equal(again, payload) {
			t.Errorf("%x was decoded to %+v %q, which is encoded as %x", payload, held, sourceID, again)
		}
	})
}
