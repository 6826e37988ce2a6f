package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"connect-svc/internal/admin/operators"
	"connect-svc/internal/admin/portal"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/work"
)

// right is who may ask for a page, or for an act. For reading alone there are only pages.
type right uint8

const (
	anyone    right = iota + 1
	operator        // operators alone
	engineers       // operators, and the partner's engineers
	secrets         // operators, and engineers if CONNECT_PARTNER_PORTAL_CHANGES has "secrets"
	webhooks        // operators, and engineers if it has "webhooks"
)

// rights has every route of the console and of the portal, by its pattern. Those about a partner begin with its id and are in both. A
// server with a route that is missing here does not start.
var rights = map[string]right{
	Path:                              operator,
	Path + "/":                        operator,
	Path + "/static/{name}":           anyone,
	Path + "/sign-in":                 anyone,
	Path + "/sign-out":                anyone,
	PreviewFiles + "{name}":           operator,
	findPath:                          operator,
	usersPath:                         operator,
	usersPath + "/{user}":             operator,
	usersPath + "/{user}/change":      operator,
	usersPath + "/{user}/lift-limits": operator,
	usersPath + "/{user}/delete":      operator,
	usersPath + "/{user}/adjust":      operator,
	usersPath + "/{user}/corrections/{dataset}/{correction}/remove": operator,
	usersPath + "/{user}/connections/{client}":                      operator,
	usersPath + "/{user}/connections/{client}/disconnect":           operator,
	servicePath:              operator,
	servicePath + "/dismiss": operator,
	auditPath:                operator,
	auditPath + ".csv":       operator,
	changesPath:              operator,
	partnersPath:             operator,
	partnersPath + "/new":    operator,

	"{partner}":                         engineers,
	"{partner}/usage":                   engineers,
	"{partner}/refused":                 engineers,
	"{partner}/connections":             engineers,
	"{partner}/consent":                 engineers,
	"{partner}/consent/{language}":      engineers,
	"{partner}/log":                     engineers,
	"{partner}/logo/{file}":             engineers,
	"{partner}/webhooks":                engineers,
	"{partner}/webhooks/test":           engineers,
	"{partner}/webhooks/replay":         engineers,
	"{partner}/webhooks/{event}":        engineers,
	"{partner}/webhooks/{event}/replay": engineers,
	"{partner}/webhooks/address":        webhooks,
	"{partner}/webhooks/pause":          webhooks,
	"{partner}/webhooks/resume":         webhooks,
	"{partner}/webhooks/remove":         webhooks,
	"{partner}/webhooks/secret":         secrets,
	"{partner}/secret":                  secrets,
	"{partner}/changes":                 engineers,
	"{partner}/changes/request":         engineers,
	"{partner}/changes/logo":            engineers,
	"{partner}/changes/withdraw":        engineers,
	"{partner}/changes/approve":         operator,
	"{partner}/changes/refuse":          operator,
	"{partner}/change":                  operator,
	"{partner}/logo":                    operator,
	"{partner}/logo/remove":             operator,
	"{partner}/disable":                 operator,
	"{partner}/enable":                  operator,
	"{partner}/revoke":                  operator,
	"{partner}/offboard":                operator,
	"{partner}/portal":                  operator,
	"{partner}/portal/link":             operator,
	"{partner}/portal/end":              operator,
	"{partner}/portal/{session}/end":    operator,

	portal.Path:                    anyone,
	portal.Path + "/static/{name}": anyone,
	PortalPreviewFiles + "{name}":  anyone,
	"{partner}/open/{link}":        anyone,
	"{partner}/sign-out":           anyone,
}

// errReadOnlyLink means that an engineer whose link is for reading alone asked for a change.
var errReadOnlyLink = errors.New("the link is for reading alone")

// principal is who asks: an operator, or an engineer of a partner.
type principal struct {
	Name     string // of the actor of the audit log
	ReadOnly bool
	Engineer bool
	Partner  uuid.UUID      // of an engineer
	changes  portal.Changes // of an engineer
}

// may returns an error unless the principal may ask for a route.
func (p principal) may(who right, method string) error {
	if p.Engineer && (who == operator || who == secrets && !p.changes.Secrets || who == webhooks && !p.changes.Webhooks) {
		return site.ErrNotFound
	}
	switch {
	case !p.ReadOnly || method == http.MethodGet:
		return nil
	case p.Engineer:
		return errReadOnlyLink
	}
	return operators.ErrReadOnly
}

// May reports whether the principal may do the act of a route.
func (p principal) May(pattern string) bool { return p.may(rights[pattern], http.MethodPost) == nil }

// May reports whether the reader of a page may do the act of a route about its partner.
func (v view) May(act string) bool { return v.Who.May("{partner}/" + act) }

type principalKey struct{}

// principalOf returns who asks, or an empty principal.
func principalOf(r *http.Request) principal {
	who, _ := r.Context().Value(principalKey{}).(principal)
	return who
}

// routes adds routes that are among [rights] to a router.
type routes struct {
	*console
	router   chi.Router
	prefix   string // before the patterns
	unlisted *error
}

// below returns the routes below a path.
func (r routes) below(prefix string) routes {
	r.prefix = prefix
	return r
}

func (r routes) get(pattern string, handle site.Handler)  { r.add(http.MethodGet, pattern, handle) }
func (r routes) post(pattern string, handle site.Handler) { r.add(http.MethodPost, pattern, handle) }

func (r routes) add(method, pattern string, handle site.Handler) {
	who := rights[pattern]
	switch {
	case who == 0:
		*r.unlisted = errors.Join(*r.unlisted, fmt.Errorf("the route %s has no right", pattern))
	case who == anyone:
		r.router.Method(method, r.prefix+pattern, r.page(handle))
	case who != operator || r.base == Path:
		r.router.Method(method, r.prefix+pattern, r.admitting(who, r.page(handle)))
	}
}

// admitting admits who has a right, and makes them the actor.
func (c *console) admitting(right right, next http.Handler) http.Handler {
	return c.page(func(w http.ResponseWriter, r *http.Request) error {
		who, err := c.identify(r)
		if err != nil {
			return err
		}
		telemetry.EventOf(r.Context()).Operator = who.Name
		r = r.WithContext(context.WithValue(work.WithActor(r.Context(), who.Name), principalKey{}, who))
		if err := who.may(right, r.Method); err != nil {
			c.fail(w, r, err)
			return nil
		}
		next.ServeHTTP(w, r)
		return nil
	})
}
