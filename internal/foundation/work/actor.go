package work

import (
	"context"
	"regexp"
	"slices"
	"strings"
)

// AnyOperator is the actor if the context names nobody.
const AnyOperator = "operator"

// reserved are the audit log's names for actors without a token.
var reserved = []string{"user", "client", AnyOperator, "system"}

var actorName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// IsActorName reports whether the audit log may use the text as a name: 1 to 64 letters, digits, dots, hyphens and underscores that begin
// with a letter or a digit. The names user, client, operator and system are reserved in any case. An email address is not a name,
// because the log contains none.
func IsActorName(text string) bool {
	return actorName.MatchString(text) && !slices.Contains(reserved, strings.ToLower(text))
}

type actorKey struct{}

// WithActor returns a context whose actor has this name, for the audit log. An edge names the holder of a token, or the person at the command line.
// Domains record the actor with each act. A name grants nothing.
func WithActor(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, actorKey{}, name)
}

// IsPersonName reports whether the audit log may name a person at a command line so: as a token, or with a reserved name.
func IsPersonName(text string) bool { return actorName.MatchString(text) }

// AtCommandLine returns the actor of a command that this person runs, such as cli:ada.
func AtCommandLine(person string) string { return "cli:" + person }

// Actor returns the name of the actor of ctx.
func Actor(ctx context.Context) string {
	if name, named := ctx.Value(actorKey{}).(string); named {
		return name
	}
	return AnyOperator
}
