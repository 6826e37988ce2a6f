package mailcatcher

import (
	"net/netip"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Forms of RFC 5321, section 4.1.2. RFC 6531, section 3.3, adds characters that are not ASCII.
var (
	argumentForm = regexp.MustCompile("^<(?:(" + dotString + "|" + quotedString + ")@(" + `[^\s<>"@]+` + "))?>" + `((?: [A-Za-z0-9][A-Za-z0-9-]*(?:=[!-<>-~]+)?)*)$`)
	domainForm   = regexp.MustCompile("^" + label + `(?:\.` + label + ")*$")
)

const (
	atom         = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~\u0080-\U0010ffff-]+"
	dotString    = atom + `(?:\.` + atom + ")*"
	quotedString = `"(?:[ !#-\[\]-~` + "\u0080-\U0010ffff" + `]|\\[ -~])*"`
	edge         = "[A-Za-z0-9\u0080-\U0010ffff]"
	label        = edge + "(?:[A-Za-z0-9\u0080-\U0010ffff-]{0,61}" + edge + ")?"
)

// splitArgument reads what follows `MAIL FROM:` or `RCPT TO:`: a path in angle brackets, then parameters. Routes before an address, which
// nobody sends any more, are refused.
func splitArgument(text string) (address string, parameters []string, valid bool) {
	match := argumentForm.FindStringSubmatch(text)
	if !utf8.ValidString(text) || match == nil {
		return "", nil, false
	}
	local, domain := match[1], match[2]
	if local == "" {
		return "", strings.Fields(match[3]), true
	}
	if len(local) > 64 || len(domain) > 255 || len(local)+len(domain)+len("<@>") > 256 || !isHost(domain) {
		return "", nil, false
	}
	return local + "@" + domain, strings.Fields(match[3]), true
}

// isHost tells whether the text is the name of a host, or an address in square brackets.
func isHost(text string) bool {
	literal, isLiteral := strings.CutPrefix(text, "[")
	if !isLiteral {
		return domainForm.MatchString(text)
	}
	literal, closed := strings.CutSuffix(literal, "]")
	literal, wants6 := strings.CutPrefix(literal, "IPv6:")
	address, err := netip.ParseAddr(literal)
	return closed && err == nil && address.Is6() == wants6 && address.Zone() == ""
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c > 0x7f })
}
