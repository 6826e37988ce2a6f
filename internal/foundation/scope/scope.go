// Package scope defines what a partner may read (specification 2.1): three scopes, and sets of them.
//
// A set is a few bits. Sets compare with ==, fit into a smallint column and need no sorting. As text, a set is its scopes in the order
// of the specification, separated by single spaces (RFC 6749, section 3.3). The package imports nothing of the service, and every
// package may use it.
package scope

import (
	"errors"
	"slices"
	"strings"
)

// Set is a set of scopes, one bit each. The zero value is the empty set; connections and clients always have a scope.
type Set int16

// The scopes of version 1. A bit keeps its meaning forever, because the database stores it.
const (
	DailySteps Set = 1 << iota
	CyclingDaily
	CyclingActivities

	All = DailySteps | CyclingDaily | CyclingActivities
)

// names are the scopes in the order of their bits.
var names = [...]string{"daily_steps:read", "cycling_daily:read", "cycling_activities:read"}

// errInvalid is the error for a scope value that is empty, contains an unknown or repeated scope, or separates scopes by anything but
// one space.
var errInvalid = errors.New("invalid scope")

// Parse parses the scope value of an authorization request: unique known scopes in any order.
func Parse(value string) (Set, error) {
	var set Set
	for name := range strings.SplitSeq(value, " ") {
		bit := slices.Index(names[:], name)
		if bit < 0 || set.Contains(1<<bit) {
			return 0, errInvalid
		}
		set |= 1 << bit
	}
	return set, nil
}

// Contains reports whether every scope of other is in s.
func (s Set) Contains(other Set) bool { return s&other == other }

// Names returns the scopes of s in the order of the specification.
func (s Set) Names() []string {
	list := make([]string, 0, len(names))
	for bit, name := range names {
		if s.Contains(1 << bit) {
			list = append(list, name)
		}
	}
	return list
}

// String returns the set as a space-separated scope value.
func (s Set) String() string { return strings.Join(s.Names(), " ") }
