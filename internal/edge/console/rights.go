package console

import (
	"context"
	"errors"
	"net/http"

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

// May reports whether the reader of a page may do the act of a route about its partner.
func (v view) May(act string) bool {
	return v.Who.may(v.rights["{partner}/"+act], http.MethodPost) == nil
}

type principalKey struct{}

// principalOf returns who asks, or an empty principal.
func principalOf(r *http.Request) principal {
	who, _ := r.Context().Value(principalKey{}).(principal)
	return who
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
