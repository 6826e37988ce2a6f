package contract

import "strings"

// Authorization returns what follows the scheme in an Authorization header, after one space or more (RFC 9110, sections 11.1 and 11.4). The
// scheme is in any case. It must be one word on one line, which a decoder of base64 does not check.
func Authorization(header, scheme string) (value string, ok bool) {
	name, rest, _ := strings.Cut(header, " ")
	value = strings.TrimLeft(rest, " ")
	return value, strings.EqualFold(name, scheme) && value != "" && !strings.ContainsAny(value, " \t\r\n")
}
