package operators_test

import (
	"encoding/base64"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"

	"connect-svc/internal/admin/operators"
)

// Tokens of openssl and of the service pass; tokens that repeat themselves fail at any length.
func TestBits(t *testing.T) {
	t.Parallel()
	random := rand.NewChaCha8([32]byte{}) // the same tokens each time: one of millions of random ones has digits alone
	for range 10_000 {
		var key [32]byte
		_, _ = random.Read(key[:]) // never fails
		for _, token := range []string{
			hex.EncodeToString(key[:16]), strings.ToUpper(hex.EncodeToString(key[:16])), hex.EncodeToString(key[:]),
			base64.StdEncoding.EncodeToString(key[:24]), base64.RawURLEncoding.EncodeToString(key[:]),
		} {
			if bits := operators.Bits(token); bits < operators.MinBits {
				t.Fatalf("a random token of %d characters has %d bits", len(token), bits)
			}
		}
	}
	made, _ := create(t, "ada", false)
	if bits := operators.Bits(made); bits < 256 {
		t.Errorf("a token made here has %d bits", bits)
	}
	for name, token := range map[string]string{
		"empty": "", "one character": strings.Repeat("x", 1024), "two": strings.Repeat("xy", 512), "a word": strings.Repeat("password", 100),
		"half a token twice": strings.Repeat("3f9c1b7e5a20d846", 2), "filled up": "3f9c1b7e5a20d846" + strings.Repeat("0", 48),
		"filled up in front": strings.Repeat("-", 100) + "Zk4tX9", "digits": "31415926535897932384626433832795", "zeros and ones": strings.Repeat("0110100110010110", 8),
		"few characters": "abacabadabacabaeabacabadabacabaf", "the alphabet twice": strings.Repeat("abcdefghijklmnop", 2),
	} {
		if bits := operators.Bits(token); bits >= operators.MinBits {
			t.Errorf("%s: %d bits", name, bits)
		}
	}
}
