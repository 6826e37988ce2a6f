package operators

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"connect-svc/internal/actor"
	"connect-svc/internal/credential"
)

// Operator is who holds a token.
type Operator struct {
	Name     string // the actor of the audit log
	ReadOnly bool   // may look and change nothing
}

type token struct {
	Operator
	hash []byte
}

// Tokens are the tokens that are valid. They do not change: whoever reads the file again makes others.
type Tokens struct{ list []token }

// New reads the file of named tokens. unnamed is credential.Hash of the token that has no name and may change everything. Without
// both, nobody is an operator: it returns nil. The error completes a sentence that begins with the file's name, and holds nothing
// of what is in it.
func New(unnamed []byte, file string) (*Tokens, error) {
	if unnamed == nil && file == "" {
		return nil, nil
	}
	var list []token
	if unnamed != nil {
		list = append(list, token{Operator{Name: actor.Operator}, unnamed})
	}
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("cannot be read: %w", errors.Unwrap(err)) // without the name, which the caller has
		}
		if list, err = parse(string(text), list); err != nil {
			return nil, err
		}
	}
	return &Tokens{list}, nil
}

const lineForm = "want NAME read|write sha256:HEX"

// parse adds the tokens of a file to a list.
func parse(text string, list []token) ([]token, error) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		one, err := parseLine(fields)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		for _, other := range list {
			if string(other.hash) == string(one.hash) {
				return nil, fmt.Errorf("line %d: another token is the same, and nobody could say whose it is", number)
			}
		}
		list = append(list, one)
	}
	return list, nil
}

func parseLine(fields []string) (token, error) {
	if len(fields) != 3 {
		return token{}, errors.New(lineForm)
	}
	one := token{Operator: Operator{Name: fields[0], ReadOnly: fields[1] == "read"}}
	if !actor.IsName(one.Name) {
		return token{}, errors.New("the name must be " + NameForm)
	}
	if fields[1] != "read" && fields[1] != "write" {
		return token{}, errors.New("after the name, " + lineForm)
	}
	digits, prefixed := strings.CutPrefix(fields[2], "sha256:")
	hash, err := hex.DecodeString(digits)
	if !prefixed || err != nil || len(hash) != 32 {
		return token{}, errors.New("the hash must be sha256: and 64 hexadecimal digits")
	}
	one.hash = hash
	return one, nil
}

// Find is who holds a token; found is false where nobody does.
func (t *Tokens) Find(text string) (holder Operator, found bool) {
	held, found := t.find(text)
	return held.Operator, found
}

func (t *Tokens) find(text string) (held token, found bool) {
	for _, one := range t.list {
		if credential.MatchesHash(text, one.hash) {
			held, found = one, true
		}
	}
	return held, found
}

// NameForm says what names are accepted.
const NameForm = "1 to 64 letters, digits, dots, hyphens and underscores, and none of user, client, operator and system"

// Create makes a token for somebody, and the line of the file that lets it in. The token is not kept anywhere. It fails where
// [NameForm] does not allow the name.
func Create(holder Operator) (text, line string, err error) {
	if !actor.IsName(holder.Name) {
		return "", "", errors.New("must be " + NameForm)
	}
	text, hash := credential.NewOperatorToken()
	rights := "write"
	if holder.ReadOnly {
		rights = "read"
	}
	return text, fmt.Sprintf("%s %s sha256:%x", holder.Name, rights, hash), nil
}
