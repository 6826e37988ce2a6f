// Package mailbox says what is an email address, of a user or of a partner's contact.
package mailbox

import (
	"net/mail"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Valid says whether the text is a bare address (RFC 5322, addr-spec) within the lengths of RFC 5321, section 4.5.3.1. Quoted local
// parts and numeric hosts are refused: nobody signs in with them, and parsers disagree about them. The address has no
// character that shows as nothing, breaks the line or turns around what follows, so that it cannot pass for another one, and no
// question mark, after which a link to the address would say more than whom to write to.
func Valid(text string) bool {
	if len(text) > 254 || !utf8.ValidString(text) || strings.ContainsFunc(text, misleading) {
		return false
	}
	parsed, err := mail.ParseAddress(text)
	if err != nil || parsed.Address != text {
		return false
	}
	at := strings.LastIndexByte(text, '@')
	return at <= 64 && !strings.HasPrefix(text[at+1:], "[")
}

// misleading are characters that are not to be seen, the fillers among the letters included, and the question mark.
func misleading(c rune) bool {
	return !unicode.IsGraphic(c) || unicode.IsSpace(c) || c == '?' || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, c) || c == '\u2800'
}
