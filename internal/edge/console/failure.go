package console

import (
	"errors"
	"net/http"

	"connect-svc/internal/admin/operators"
	"connect-svc/internal/admin/portal"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/telemetry"
)

// failures maps errors to pages with the texts console.failure.{name}. Any other error is a fault of the service.
var failures = []struct {
	err    error
	name   string // also in the log
	status int
}{
	{site.ErrBadForm, "bad_form", http.StatusBadRequest},
	{site.ErrForeignForm, "foreign_form", http.StatusForbidden},
	{operators.ErrReadOnly, "read_only", http.StatusForbidden},
	{portal.ErrNoSession, "no_session", http.StatusForbidden},
	{portal.ErrClientDisabled, "partner_disabled", http.StatusConflict},
	{portal.ErrTooMany, "too_many_links", http.StatusConflict},
	{errReadOnlyLink, "read_only_link", http.StatusForbidden},
	{page.ErrCursor, "cursor", http.StatusBadRequest},
	{site.ErrNotFound, "not_found", http.StatusNotFound},
	{refusal.ErrUserNotFound, "user_not_found", http.StatusNotFound},
	{activity.ErrNoAdjustment, "adjustment_not_found", http.StatusNotFound},
	{oauth.ErrNotConnected, "not_connected", http.StatusNotFound},
	{refusal.ErrClientNotFound, "partner_not_found", http.StatusNotFound},
	{refusal.ErrClientOffboarded, "offboarded", http.StatusConflict},
	{client.ErrNoChangeRequest, "change_gone", http.StatusConflict},
	{webhook.ErrEventType, "bad_form", http.StatusBadRequest},
	{webhook.ErrNoEndpoint, "no_webhook", http.StatusConflict},
	{webhook.ErrStopped, "webhook_stopped", http.StatusConflict},
	{webhook.ErrNoEvent, "event_not_found", http.StatusNotFound},
}

// fail sends the page of an error.
func (c *console) fail(w http.ResponseWriter, r *http.Request, err error) {
	event := telemetry.EventOf(r.Context())
	name, status := "fault", http.StatusInternalServerError
	for _, known := range failures {
		if errors.Is(err, known.err) {
			name, status = known.name, known.status
			break
		}
	}
	event.Code = name
	if name == "fault" {
		event.Cause = err
	}
	c.site.Write(w, r, status, "failure", view{Who: principalOf(r), X: name})
}
