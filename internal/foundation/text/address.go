// Package text compares what people type: names and email addresses.
//
// Names are compared without regard to the case of letters, by one rule ([Fold]). A database would decide by its locale: for one in Turkish INES is
// not ines, and for one in C SÖRE is not söre.
//
// An address has four forms: as somebody typed it; as it is stored and shown ([StoredAddress]); the key by which it is found, which only programs
// see ([AddressKey]); and as it is sent ([SentAddress]).
//
// # Invariants
//
//   - Texts are the same if they differ only in the case of letters, or in how Unicode composes them (TestFold). Nothing else makes them the
//     same: ß is not ss, and a dotless ı is not i (TestFoldKeepsApart).
//   - The folded form of a folded text is itself (FuzzFold).
//   - No statement folds a text, so no key depends on the database's locale (TestProgramFolds).
//   - A valid address looks like no other address: it has no invisible character, and none that reorders text. Its domain is the name of a host
//     (TestIsAddress).
//   - Addresses that differ only in case, in how Unicode composes their letters, or in the spelling of the domain have one key. No others do
//     (TestAddressKey).
package text

import (
	"cmp"
	"net/mail"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/text/runes"
	"golang.org/x/text/unicode/norm"
)

// IsStorable reports whether PostgreSQL and JSON can hold a text: it is valid UTF-8 without NUL.
func IsStorable(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

// MaxAddress is the maximum length of an address in bytes.
const MaxAddress = 254

// IsAddress reports whether the text is a bare address (RFC 5322, addr-spec) at the name of a host, within the lengths of RFC 5321, section
// 4.5.3.1, also in the forms in which it is stored and sent. It rejects quoted local parts and numeric hosts, which nobody signs in with and
// about which parsers disagree. It rejects characters that are invisible, break the line or reverse the text after them, with which an address
// could imitate another one. It rejects question marks, which in a mailto: link begin further fields.
//
// The host may have one label, such as that of a mail server in an operator's own network. Its labels have letters, digits and hyphens. Other
// letters have to be valid in the registration of a domain (IDNA2008): browsers take more, such as wide letters, which other programs take for
// another domain, or for none.
func IsAddress(text string) bool {
	misleading := func(c rune) bool { // an invisible character, such as the fillers among the letters, or the question mark
		return !unicode.IsGraphic(c) || unicode.IsSpace(c) || c == '?' || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, c) || c == '\u2800'
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, misleading) {
		return false
	}
	text = StoredAddress(text)
	parsed, err := mail.ParseAddress(text)
	if err != nil || parsed.Address != text {
		return false
	}
	local, domain := split(text)
	host, err := hostOf(domain)
	isNumeric := strings.Trim(host[strings.LastIndexByte(host, '.')+1:], "0123456789") == "" // an IPv4 address, of which no name may be
	return err == nil && len(local) <= 64 && len(text) <= MaxAddress && len(local)+1+len(host) <= MaxAddress && !isNumeric
}

// split returns the parts of an address. Only the last @ separates them.
func split(text string) (local, domain string) {
	at := strings.LastIndexByte(text, '@')
	return text[:max(at, 0)], text[at+1:]
}

// hostOf returns the name of a host in A-labels and in lower case: xn--bcher-kva.example for Bücher.example.
func hostOf(domain string) (string, error) {
	return idna.Registration.ToASCII(lowerCase(domain))
}

// StoredAddress returns a valid address as it is stored: in Unicode's normalization form C.
func StoredAddress(text string) string { return norm.NFC.String(text) }

// AddressKey returns what is equal for addresses of one mailbox: the key of the local part by [Fold], and the domain in A-labels. For an address in
// ASCII that is the address in lower case.
//
// Mail servers may tell addresses apart that differ in case (RFC 5321, section 2.4). None of those that people use does.
func AddressKey(text string) string {
	local, domain := split(text)
	host, err := hostOf(domain)
	if err != nil { // stored by a program that took it for valid
		host = lowerCase(domain)
	}
	return Fold(local) + "@" + host
}

// SentAddress returns a valid address as mail servers get it: with the domain in A-labels, because most mail servers take no other (RFC 6530, section
// 7.1). One in ASCII stays as it is.
func SentAddress(text string) string {
	local, domain := split(text)
	host, err := hostOf(domain)
	if err != nil || isASCII(domain) {
		return text
	}
	return local + "@" + host
}

// NeedsSMTPUTF8 reports whether only mail servers that offer SMTPUTF8 (RFC 6531) take the address: its local part is not ASCII.
func NeedsSMTPUTF8(text string) bool {
	local, _ := split(text)
	return !isASCII(local)
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c > unicode.MaxASCII })
}

// İ is an i with a dot above. Letter by letter it would be an i, which is another letter to those who write it.
var dotted = strings.NewReplacer("İ", "i̇")

// lowerCase returns the text in lower case, letter by letter, and in Unicode's normalization form C.
func lowerCase(text string) string {
	return norm.NFC.String(strings.ToLower(dotted.Replace(norm.NFC.String(text))))
}

// Fold returns what is equal for texts that are the same. In ASCII it is the text in lower case.
func Fold(text string) string {
	return strings.ReplaceAll(lowerCase(text), "ς", "σ") // both are the small Σ
}

// plain are the letters without a decomposition in Unicode that people look for at another one.
var plain = strings.NewReplacer("ø", "o", "ł", "l", "đ", "d", "ı", "i", "ß", "ss", "æ", "ae", "œ", "oe")

// Sort sorts a list by names as people expect it, whatever their language: é is next to e, and the case of letters does not count. The same names
// stay in their order. Unicode's own order has tables of a megabyte, which is much for the few companies of a user.
func Sort[T any](list []T, name func(T) string) {
	letters := func(name string) string {
		return runes.Remove(runes.In(unicode.Mn)).String(norm.NFD.String(plain.Replace(name)))
	}
	slices.SortStableFunc(list, func(a, b T) int {
		first, second := Fold(name(a)), Fold(name(b))
		return cmp.Or(strings.Compare(letters(first), letters(second)), strings.Compare(first, second))
	})
}
