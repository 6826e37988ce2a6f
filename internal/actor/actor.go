// Package actor carries through a context who acts as the operator, for the audit log. An edge names the holder of a token with
// [As]; the domains write what [Of] returns with each act of the operator. The command line, and the token without a name, act as
// [Operator].
//
// A name is no permission: an edge decides what its caller may do before it asks a domain. The package imports nothing of the
// service.
package actor

import (
	"context"
	"regexp"
	"slices"
	"strings"
)

// Operator acts where nobody is named.
const Operator = "operator"

// reserved are what the audit log calls those who are no holder of a token.
var reserved = []string{"user", "client", Operator, "system"}

var name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// IsName says whether somebody can be called this in the audit log: 1 to 64 letters, digits, dots, hyphens and underscores,
// beginning with a letter or a digit, and none of user, client, operator and system in any case. An e-mail address is no name:
// the log holds none.
func IsName(text string) bool {
	return name.MatchString(text) && !slices.Contains(reserved, strings.ToLower(text))
}

type key struct{}

// As is ctx in which somebody of this name acts.
func As(ctx context.Context, name string) context.Context { return context.WithValue(ctx, key{}, name) }

// Of is who acts under ctx.
func Of(ctx context.Context) string {
	if name, named := ctx.Value(key{}).(string); named {
		return name
	}
	return Operator
}
