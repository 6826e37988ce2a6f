package operators

import (
	"math"
	"strings"
)

// MinBits is how many bits a token that an operator makes up must have, as [Bits] estimates them.
const MinBits = 128

// window is how many characters must come again to be a repetition. In 32 random hexadecimal digits eight do so once in more than ten
// million tokens.
const window = 8

// Bits estimates from above how many bits an attacker must guess who knows of what kind of characters a token is. A character that
// ends a repetition of what the token had before tells nothing new. What the estimate cannot see are words and dates.
func Bits(token string) int {
	seen := map[string]bool{}
	for end := window; end <= len(token); end++ {
		seen[token[end-window:end]] = true
	}
	news := min(len(token), window-1) + len(seen)
	return int(math.Round(float64(news) * math.Log2(float64(alphabet(token)))))
}

// alphabet is of how many characters the smallest usual alphabet has that a token is from.
func alphabet(token string) int {
	distinct := map[rune]bool{}
	for _, c := range token {
		distinct[c] = true
	}
	if len(distinct) < 8 { // fewer than a random token has of any alphabet below
		return max(len(distinct), 1)
	}
	for _, usual := range []string{"0123456789", "0123456789abcdef", "0123456789ABCDEF", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"} {
		if strings.Trim(token, usual) == "" {
			return len(usual)
		}
	}
	return 64
}
