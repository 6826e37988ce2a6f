package sandbox

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"io"
	mathrand "math/rand/v2"
	"sync"
)

// newRandom returns a source of ids and secrets that is safe for concurrent use. With a seed, the sources of one purpose always yield
// the same bits; without one, the source is crypto/rand.
func newRandom(seed *uint64, purpose string) io.Reader {
	if seed == nil {
		return rand.Reader
	}
	key := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(purpose), *seed))
	return &repeatable{random: mathrand.NewChaCha8(key)}
}

type repeatable struct {
	mu     sync.Mutex
	random *mathrand.ChaCha8
}

func (r *repeatable) Read(bits []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.random.Read(bits)
}
