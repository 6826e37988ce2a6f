package sandbox

import (
	"crypto/rand"
	"encoding/binary"
	"io"
	mathrand "math/rand/v2"
	"sync"

	"github.com/google/uuid"
)

// source makes ids and secrets: random ones, or with a seed the same ones each time, in the order in which they are asked for.
type source struct {
	mu     sync.Mutex
	random io.Reader
}

func newSource(seed *uint64) *source {
	if seed == nil {
		return &source{random: rand.Reader}
	}
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], *seed)
	return &source{random: mathrand.NewChaCha8(key)}
}

// bits are those of a secret.
func (s *source) bits() (bits [32]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.ReadFull(s.random, bits[:]) // neither reader fails
	return bits
}

func (s *source) id() uuid.UUID {
	bits := s.bits()
	id := uuid.UUID(bits[:16])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // version 4 (RFC 9562, section 5.4)
	return id
}
