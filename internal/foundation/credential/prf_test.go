package credential

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/tink-crypto/tink-go/v2/prf"
	"pgregory.net/rapid"
)

// Identifiers never change: they are what Tink's own PRF makes of the key.
func TestPRFIsTinks(t *testing.T) {
	t.Parallel()
	keys, err := newKeysets()
	if err != nil {
		t.Fatal(err)
	}
	ring, err := newKeyring(keys)
	if err != nil {
		t.Fatal(err)
	}
	set, err := prf.NewPRFSet(keys.identifiers)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		label := rapid.String().Draw(t, "label")
		parts := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 100), 0, 4).Draw(t, "parts")
		input := append(binary.BigEndian.AppendUint32(nil, uint32(len(label))), label...)
		for _, part := range parts {
			input = append(binary.BigEndian.AppendUint32(input, uint32(len(part))), part...)
		}
		want, err := set.ComputePrimaryPRF(input, 32)
		if err != nil {
			t.Fatal(err)
		}
		if got := ring.PRF(label, parts...); !bytes.Equal(got[:], want) {
			t.Errorf("got %x, want %x", got, want)
		}
	})
}

func BenchmarkSeal(b *testing.B) {
	ring, payload := NewTestKeyring(), make([]byte, 64)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ring.Seal(AccessToken, payload); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	ring := NewTestKeyring()
	sealed, err := ring.Seal(AccessToken, make([]byte, 64))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ring.Open(AccessToken, sealed); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPRF(b *testing.B) {
	ring, part := NewTestKeyring(), make([]byte, 16)
	b.ReportAllocs()
	for b.Loop() {
		ring.PRF("cycling-activity", part, part, part)
	}
}
