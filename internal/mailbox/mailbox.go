// Package mailbox validates the email addresses of users and of partners' contacts.
//
// # Invariants
//
//   - A valid address looks like no other address: it has no invisible character, and none that reorders text (TestValid).
package mailbox

import (
	"net/mail"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxLength is the maximum length of an address in bytes.
const MaxLength = 254

// Valid reports whether the text is a bare address (RFC 5322, addr-spec) within the lengths of RFC 5321, section 4.5.3.1. It rejects
// quoted local parts and numeric hosts, which nobody signs in with and about which parsers disagree. It rejects characters that are
// invisible, break the line or reverse the text after them, with which an address could imitate another one. It rejects question marks,
// which in a mailto: link begin further fields.
func Valid(text string) bool {
	if len(text) > MaxLength || !utf8.ValidString(text) || strings.ContainsFunc(text, misleading) {
		return false
	}
	parsed, err := mail.ParseAddress(text)
	if err != nil || parsed.Address != text {
		return false
	}
	at := strings.LastIndexByte(text, '@')
	return at <= 64 && !strings.HasPrefix(text[at+1:], "[")
}

// misleading matches invisible characters, including the fillers among the letters, and the question mark.
func misleading(c rune) bool {
	return !unicode.IsGraphic(c) || unicode.IsSpace(c) || c == '?' || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, c) || c == '\u2800'
}
