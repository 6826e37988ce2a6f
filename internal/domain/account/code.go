package account

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode"

	"github.com/google/uuid"
)

const codeDigits = 6

// digits returns the digits of a code that was typed or pasted in any script. It drops spaces, hyphens and invisible characters, and what
// surrounds the code, such as quotes and words without digits. Everything else stays, and makes the code malformed.
func digits(code string) string {
	code = strings.TrimFunc(code, func(c rune) bool { return !unicode.Is(unicode.Nd, c) })
	return strings.Map(func(c rune) rune {
		switch {
		case unicode.Is(unicode.Nd, c):
			return '0' + digitValue(c)
		case unicode.In(c, unicode.White_Space, unicode.Pd, unicode.Cc, unicode.Cf):
			return -1
		}
		return c
	}, code)
}

// digitValue returns 0 to 9. The digits of a script follow each other from zero on, and may follow those of another script.
func digitValue(c rune) (value rune) {
	for unicode.Is(unicode.Nd, c-value-1) {
		value++
	}
	return value % 10
}

// codeOf derives the code of a sign-in from its seed. Every server with the keys can derive it and write the email. The database alone
// reveals nothing about it. The remainder of 2^64 values favors no code noticeably.
func (a *Accounts) codeOf(signIn uuid.UUID, seed []byte) string {
	output := a.keys.PRF("sign-in code", signIn[:], seed)
	return fmt.Sprintf("%0*d", codeDigits, binary.BigEndian.Uint64(output[:8])%1_000_000)
}
