package compat

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// Break is one change that breaks a client.
type Break struct {
	Where string // as in "POST /oauth/token, answer 200, application/json $.expires_in", which ends in a JSONPath
	What  string
}

func (b Break) String() string { return b.Where + ": " + b.What }

// Files compares a released document with the one that is to follow it.
func Files(released, next string) ([]Break, error) {
	var documents [2]*openapi3.T
	for i, path := range []string{released, next} {
		document, err := openapi3.NewLoader().LoadFromFile(path)
		if err == nil {
			err = document.Validate(context.Background())
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		documents[i] = document
	}
	return Compare(documents[0], documents[1]), nil
}

// Compare lists the breaks, in the order of where they are. Both documents must be resolved, as a loader leaves them.
func Compare(released, next *openapi3.T) []Break {
	c := &comparison{compared: map[pair]bool{}}
	if before, after := edition(released.OpenAPI), edition(next.OpenAPI); before != after {
		c.add("the document", "OpenAPI %s became %s, which the client's tools may not read", before, after)
	}
	c.servers("the document", released.Servers, next.Servers)
	c.paths(released, next)
	c.webhooks(released, next)
	c.components(released.Components, next.Components)
	slices.SortStableFunc(c.breaks, func(a, b Break) int { return strings.Compare(a.Where, b.Where) })
	return slices.Compact(c.breaks)
}

// edition is the version of OpenAPI without its patch level.
func edition(version string) string {
	if end := strings.LastIndex(version, "."); strings.Count(version, ".") == 2 {
		return version[:end]
	}
	return version
}

// comparison collects breaks.
type comparison struct {
	breaks   []Break
	compared map[pair]bool // schemas without a break, and those on the way to the one that is being compared
}

func (c *comparison) add(where, format string, values ...any) {
	c.breaks = append(c.breaks, Break{where, fmt.Sprintf(format, values...)})
}

// direction says who sends what is compared.
type direction bool

const (
	input  direction = false // the client
	output direction = true  // the service
)

// sorted are the names of a map, in order, so that the same two documents always give the same list.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func (c *comparison) servers(where string, before, after openapi3.Servers) {
	for _, server := range before {
		i := slices.IndexFunc(after, func(s *openapi3.Server) bool { return s.URL == server.URL })
		if i < 0 {
			c.add(where, "server %s was removed", server.URL)
			continue
		}
		for _, name := range sorted(server.Variables) {
			if old, new := server.Variables[name], after[i].Variables[name]; new == nil {
				c.add(where, "variable %s of server %s was removed", name, server.URL)
			} else if old.Default != new.Default || !slices.Equal(old.Enum, new.Enum) {
				c.add(where, "variable %s of server %s was changed", name, server.URL)
			}
		}
	}
}

func (c *comparison) paths(released, next *openapi3.T) {
	for _, path := range sorted(released.Paths.Map()) {
		before, after := released.Paths.Value(path), next.Paths.Value(path)
		if after == nil {
			c.add(path, "the path was removed")
			continue
		}
		c.pathItem(path, before, after, released.Security, next.Security, input)
	}
}

func (c *comparison) webhooks(released, next *openapi3.T) {
	for _, name := range sorted(released.Webhooks) {
		where := "webhook " + name
		if next.Webhooks[name] == nil {
			c.add(where, "the webhook was removed")
			continue
		}
		c.pathItem(where, released.Webhooks[name], next.Webhooks[name], released.Security, next.Security, output)
	}
}

// pathItem compares the operations of a path or webhook; requests says who sends them.
func (c *comparison) pathItem(
	name string, before, after *openapi3.PathItem, security, newSecurity openapi3.SecurityRequirements, requests direction,
) {
	c.override(name, before.Servers, after.Servers)
	operations, now := before.Operations(), after.Operations()
	for _, method := range sorted(operations) {
		where := method + " " + name
		old, new := operations[method], now[method]
		if new == nil {
			c.add(where, "the operation was removed")
			continue
		}
		c.operation(where, old, new, requests)
		c.parameters(where, all(before, old), all(after, new), requests)
		c.security(where, effective(old.Security, security), effective(new.Security, newSecurity))
	}
}

func (c *comparison) operation(where string, old, new *openapi3.Operation, requests direction) {
	if old.OperationID != new.OperationID {
		c.add(where, "operationId %s became %q, and generated methods with it", old.OperationID, new.OperationID)
	}
	for _, tag := range old.Tags {
		if !slices.Contains(new.Tags, tag) {
			c.add(where, "tag %s was removed, by which generators group", tag)
		}
	}
	if old.Servers != nil || new.Servers != nil {
		var before, after openapi3.Servers
		if old.Servers != nil {
			before = *old.Servers
		}
		if new.Servers != nil {
			after = *new.Servers
		}
		c.override(where, before, after)
	}
	if different(old.Callbacks, new.Callbacks) {
		c.add(where, "callbacks were changed, which this check cannot judge")
	}
	c.body(where+", body", old.RequestBody, new.RequestBody, requests)
	c.responses(where, old.Responses, new.Responses, !requests)
}

// override compares servers that stand instead of those of the document.
func (c *comparison) override(where string, before, after openapi3.Servers) {
	if len(before) == 0 && len(after) > 0 {
		c.add(where, "servers of its own were added")
	}
	c.servers(where, before, after)
}

// all are the parameters of an operation with those of its path that it does not override.
func all(item *openapi3.PathItem, operation *openapi3.Operation) openapi3.Parameters {
	parameters := slices.Clone(operation.Parameters)
	for _, reference := range item.Parameters {
		if operation.Parameters.GetByInAndName(reference.Value.In, reference.Value.Name) == nil {
			parameters = append(parameters, reference)
		}
	}
	return parameters
}

func effective(own *openapi3.SecurityRequirements, all openapi3.SecurityRequirements) openapi3.SecurityRequirements {
	if own != nil {
		return *own
	}
	return all
}
