package operators

import (
	"math"
	"strings"
)

// MinBits is the smallest strength of a token that an operator makes up, as [Bits] estimates it.
const MinBits = 128

// window is the length of a repetition in characters. Of ten million tokens of 32 random hexadecimal digits, fewer than one repeats
// eight digits.
const window = 8

// Bits returns an upper estimate of the bits that an attacker must guess who knows the alphabet of a token. A character that ends a
// repetition adds nothing. The estimate does not recognize words and dates.
func Bits(token string) int {
	seen := map[string]bool{}
	for end := window; end <= len(token); end++ {
		seen[token[end-window:end]] = true
	}
	news := min(len(token), window-1) + len(seen)
	return int(math.Round(float64(news) * math.Log2(float64(alphabet(token)))))
}

// alphabet returns the size of the smallest usual alphabet that has all characters of a token.
func alphabet(token string) int {
	distinct := map[rune]bool{}
	for _, c := range token {
		distinct[c] = true
	}
	if len(distinct) < 8 { // fewer than in a random token of any alphabet below
		return max(len(distinct), 1)
	}
	for _, usual := range []string{"0123456789", "0123456789abcdef", "0123456789ABCDEF", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"} {
		if strings.Trim(token, usual) == "" {
			return len(usual)
		}
	}
	return 64
}
