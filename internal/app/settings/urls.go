package settings

import (
	"errors"
	"regexp"
	"strings"
)

var (
	errPassword = errors.New("has a user or password that is not percent-encoded: @ is %40, / is %2F, # is %23, ? is %3F, % is %25, and a space %20")

	// queryValues are what may hold an @ in a URL behind its host.
	queryValues = regexp.MustCompile(`=[^&#]*`)
	// plainUserinfo has the characters of RFC 3986, section 3.2.1, and the @ of a user who is named by an address.
	plainUserinfo = regexp.MustCompile(`^([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*$`)
)

// ofServer is the parse of a URL of a server, with a user and a password or without. A password that is not percent-encoded ends at the wrong
// place: its rest would be taken for a host or a path, and printed, so it is refused, even if a parser would guess what is meant.
func ofServer(check func(string) error) func(string) (any, error) {
	return func(s string) (any, error) {
		_, rest, _ := strings.Cut(s, "://")
		authority, tail := rest, ""
		if end := strings.IndexAny(rest, "/?#"); end >= 0 {
			authority, tail = rest[:end], rest[end:]
		}
		userinfo := authority[:max(0, strings.LastIndex(authority, "@"))]
		_, password, _ := strings.Cut(userinfo, ":")
		err := check(s)
		switch {
		case strings.Contains(password, "@"),
			strings.Contains(queryValues.ReplaceAllString(tail, ""), "@"),
			err != nil && (!plainUserinfo.MatchString(userinfo) || strings.Contains(userinfo, "@")):
			return nil, errPassword
		}
		return s, err
	}
}
