// Package operators knows who may act as the operator: the holder of the one token without a name (CONNECT_OPERATOR_TOKEN), and
// the holders of the named tokens of a file (CONNECT_OPERATOR_TOKENS_FILE). The operator API and the console share one list. A browser
// shows its token once and then has a session of the console.
//
// # Invariants
//
//   - Only the SHA-256 of a token is kept, in memory, in the file and in the database. Tokens have 256 random bits, so that their hash
//     needs no salt (TestTokens).
//   - Removing a line always takes effect, even if other lines are invalid. A token of an invalid line, or of two lines, is refused
//     (TestBadFiles).
//   - A reload that fails only removes tokens (TestLeft).
//   - A session lasts 8 hours by the database's clock, and ends with its token on each server that has reloaded its list. The database
//     has the hash of a secret that only the browser holds (TestSession).
//   - A token that an operator makes up must be strong (TestBits).
//
// A lookup compares with all tokens in constant time, so that its duration reveals nothing about them.
package operators

import (
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/work"
)

// Operator is the holder of a token.
type Operator struct {
	Name     string // the actor of the audit log
	ReadOnly bool   // may read only
}

type token struct {
	Operator
	hash []byte
}

// Tokens are the valid tokens. They are immutable: reading the file again makes new ones.
type Tokens struct{ list []token }

// maxFile bounds the file in bytes, far above any need.
const maxFile = 1 << 20

// New reads the file of named tokens. unnamed is credential.Hash of the token without a name, which may change everything. Without
// both there are no operators, and it returns nil.
//
// If the file or some of its lines are invalid, it returns the tokens of all other lines with the error. The error completes a
// sentence that begins with the file's name, and holds nothing of the file's content.
func New(unnamed []byte, file string) (*Tokens, error) {
	if unnamed == nil && file == "" {
		return nil, nil
	}
	tokens := &Tokens{}
	if unnamed != nil {
		tokens.list = []token{{Operator{Name: work.AnyOperator}, unnamed}}
	}
	if file == "" {
		return tokens, nil
	}
	text, err := credential.ReadSecretFile(file, maxFile)
	if err != nil {
		return tokens, fmt.Errorf("cannot be read: %w", errors.Unwrap(err)) // without the name, which the caller adds
	}
	named, err := parse(strings.TrimPrefix(string(text), "\ufeff"), unnamed) // a byte order mark, as some editors write
	tokens.list = append(tokens.list, named...)
	return tokens, err
}

// Left returns the tokens of before that are also among those of now, with the rights that both give. An invalid list may thus remove
// tokens, but add none.
func (after *Tokens) Left(before *Tokens) *Tokens {
	if before == nil {
		return nil
	}
	left := &Tokens{}
	for _, entry := range before.list {
		if same, ok := after.find(entry.hash); ok {
			entry.ReadOnly = entry.ReadOnly || same.ReadOnly
			left.list = append(left.list, entry)
		}
	}
	return left
}

// ReadOnly returns the same tokens, for reading alone.
func (t *Tokens) ReadOnly() *Tokens {
	if t == nil {
		return nil
	}
	looking := &Tokens{slices.Clone(t.list)}
	for i := range looking.list {
		looking.list[i].ReadOnly = true
	}
	return looking
}

// find looks a token up by its hash. It compares with all in constant time.
func (t *Tokens) find(hash []byte) (entry token, ok bool) {
	if t == nil {
		return token{}, false
	}
	for _, candidate := range t.list {
		if subtle.ConstantTimeCompare(candidate.hash, hash) == 1 {
			entry, ok = candidate, true
		}
	}
	return entry, ok
}

const lineForm = "want NAME read|write sha256:HEX"

// maxNamed bounds the invalid lines that an error names.
const maxNamed = 20

// parse parses a file. It returns the tokens of the valid lines; the error names the others.
func parse(text string, unnamed []byte) (list []token, err error) {
	var lines [][]string
	times := map[string]int{string(unnamed): 1} // also of hashes in invalid lines: their tokens must not become valid through other lines
	for content := range strings.Lines(text) {
		content, _, _ = strings.Cut(content, "#")
		fields := strings.Fields(content)
		for _, field := range fields {
			if hash, ok := parseHash(field); ok {
				times[string(hash)]++
			}
		}
		lines = append(lines, fields)
	}
	var problems []string
	for i, fields := range lines {
		if len(fields) == 0 {
			continue
		}
		entry, err := parseLine(fields)
		if err == nil && times[string(entry.hash)] > 1 {
			err = errors.New("another token is the same, and its holder would be ambiguous")
		}
		if err == nil {
			list = append(list, entry)
		} else {
			problems = append(problems, fmt.Sprintf("line %d: %v", i+1, err))
		}
	}
	if more := len(problems) - maxNamed; more > 0 {
		problems = append(problems[:maxNamed], fmt.Sprintf("and %d lines more", more))
	}
	if len(problems) > 0 {
		return list, errors.New(strings.Join(problems, "; "))
	}
	return list, nil
}

func parseLine(fields []string) (token, error) {
	if len(fields) != 3 {
		return token{}, errors.New(lineForm)
	}
	entry := token{Operator: Operator{Name: fields[0], ReadOnly: fields[1] == "read"}}
	if !work.IsActorName(entry.Name) {
		return token{}, errors.New("the name must be " + nameForm)
	}
	if fields[1] != "read" && fields[1] != "write" {
		return token{}, errors.New("after the name, " + lineForm)
	}
	hash, ok := parseHash(fields[2])
	if !ok {
		return token{}, errors.New("the hash must be sha256: and 64 hexadecimal digits")
	}
	entry.hash = hash
	return entry, nil
}

func parseHash(field string) (hash []byte, ok bool) {
	digits, prefixed := strings.CutPrefix(field, "sha256:")
	hash, err := hex.DecodeString(digits)
	return hash, prefixed && err == nil && len(hash) == 32
}

// Find returns the holder of a token.
func (t *Tokens) Find(text string) (holder Operator, ok bool) {
	entry, ok := t.find(credential.Hash(text))
	return entry.Operator, ok
}

// nameForm describes valid names.
const nameForm = "1 to 64 letters, digits, dots, hyphens and underscores, except for user, client, operator and system"

// Create makes a token and its line of the file. The token is not stored anywhere. The error is about the name ([nameForm]).
func Create(holder Operator) (text, line string, err error) {
	if !work.IsActorName(holder.Name) {
		return "", "", errors.New("must be " + nameForm)
	}
	text, hash := credential.NewOperatorToken()
	rights := "write"
	if holder.ReadOnly {
		rights = "read"
	}
	return text, fmt.Sprintf("%s %s sha256:%x", holder.Name, rights, hash), nil
}

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
