// Package actor carries the name of the acting operator in a context, for the audit log. An edge names the holder of a token, or the person at the
// command line, with [As]. Domains record the result of [Of] with each act of the operator.
//
// A name grants nothing: an edge decides what its caller may do before it calls a domain. The package imports nothing of the service.
package actor

import (
	"context"
	"regexp"
	"slices"
	"strings"
)

// Operator is the actor if the context names nobody.
const Operator = "operator"

// reserved are the audit log's names for actors without a token.
var reserved = []string{"user", "client", Operator, "system"}

var name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// IsName reports whether the audit log may use the text as a name: 1 to 64 letters, digits, dots, hyphens and underscores that begin
// with a letter or a digit. The names user, client, operator and system are reserved in any case. An email address is not a name,
// because the log contains none.
func IsName(text string) bool {
	return name.MatchString(text) && !slices.Contains(reserved, strings.ToLower(text))
}

type key struct{}

// As returns a context whose actor has this name.
func As(ctx context.Context, name string) context.Context { return context.WithValue(ctx, key{}, name) }

// IsPerson reports whether the audit log may name a person at a command line so: as a token, or with a reserved name.
func IsPerson(text string) bool { return name.MatchString(text) }

// AtCommandLine returns the actor of a command that this person runs, such as cli:ada.
func AtCommandLine(person string) string { return "cli:" + person }

// Of returns the name of the actor of ctx.
func Of(ctx context.Context) string {
	if name, named := ctx.Value(key{}).(string); named {
		return name
	}
	return Operator
}
