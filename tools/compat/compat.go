package compat

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/oasdiff/oasdiff/checker"
	"github.com/oasdiff/oasdiff/diff"
	"github.com/oasdiff/oasdiff/load"
)

// Break is one change that breaks a client.
type Break struct {
	Where string // as in "POST /oauth/token" or "POST webhook connection.revoked"
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
	return Compare(documents[0], documents[1])
}

// Compare lists the breaks, ordered by where they are. It rewrites both documents, whose references must be resolved, as a
// loader leaves them.
func Compare(released, next *openapi3.T) ([]Break, error) {
	breaks := changedErrors(released, next)
	rewrite(released)
	rewrite(next)
	config := diff.NewConfig(diff.WithExcludeElements(diff.GetExcludeDiffOptions()))
	config.IncludePathParams = true // generators make arguments of their names
	differences, sources, err := diff.GetWithOperationsSourcesMap(config, &load.SpecInfo{Spec: released}, &load.SpecInfo{Spec: next})
	if err != nil {
		return nil, err
	}
	rules := checker.NewConfig(checker.GetAllChecks(), checker.WithSeverityLevels(stricter))
	for _, change := range checker.CheckBackwardCompatibility(rules, differences, sources) {
		what := change.GetUncolorizedText(checker.NewDefaultLocalizer())
		// A new header, which clients ignore. It looks like a field: see rewrite.
		if rule := change.GetId(); strings.HasPrefix(rule, "response-") && strings.HasSuffix(rule, "-property-added") && strings.Contains(what, "`"+headerPrefix) {
			continue
		}
		where := strings.TrimSpace(change.GetOperation() + " " + change.GetPath())
		breaks = append(breaks, Break{cmp.Or(where, change.GetSection()), what})
	}
	unjudged, err := unjudgedChanges(differences)
	if err != nil {
		return nil, err
	}
	breaks = append(breaks, unjudged...)
	slices.SortFunc(breaks, func(a, b Break) int {
		return cmp.Or(strings.Compare(a.Where, b.Where), strings.Compare(a.What, b.What))
	})
	return slices.Compact(breaks), nil
}

// stricter are the rules of oasdiff that report a break here, although oasdiff itself only informs. A client may depend on
// every value, status and name that the document lists, and a removal breaks it however long it was announced.
var stricter = map[string]checker.Level{
	"api-operation-id-removed":            checker.ERR, // generators name methods after it
	"api-tag-removed":                     checker.ERR, // generators group methods by it
	"api-path-removed-with-deprecation":   checker.ERR,
	"api-removed-with-deprecation":        checker.ERR,
	"api-security-anonymous-access-added": checker.ERR,

	"request-parameter-removed-with-deprecation": checker.ERR,

	"response-media-type-added":                           checker.ERR,
	"response-success-status-added":                       checker.ERR,
	"response-non-success-status-added":                   checker.ERR,
	"response-non-success-status-removed":                 checker.ERR,
	"response-optional-property-added":                    checker.ERR, // objects are closed
	"response-required-property-added":                    checker.ERR,
	"response-optional-property-removed":                  checker.ERR,
	"response-required-property-removed-with-deprecation": checker.ERR,
	"response-property-enum-value-removed":                checker.ERR,
	"response-mediatype-enum-value-removed":               checker.ERR,
}
