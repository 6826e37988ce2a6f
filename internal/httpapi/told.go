package httpapi

import (
	"errors"
	"net/http"

	"connect-svc/internal/ratelimit"
	"connect-svc/internal/telemetry"
)

// errTold is what the fault of a table is told for, where there is none.
var errTold = errors.New("told without a cause")

// TellFailure answers a request with the error of a status and a code, as the operation of its path does when it fails
// so: body and headers are those of the service's own answer. The budget is what the answer to a counted request says,
// and nil for one that was not counted. It reports false, and writes nothing, where there is no such error. Put it behind
// telemetry.Requests.
func TellFailure(w http.ResponseWriter, r *http.Request, status int, code string, budget *ratelimit.Decision) bool {
	table, fault := oauthTable, oauthFault
	if isRead(r) {
		table, fault = activityTable, activityFault
	}
	var cause error
	for _, row := range append([]row{{errTold, fault}}, table...) {
		if row.status == status && row.code == code {
			cause = row.err
			break
		}
	}
	if cause == nil {
		return false
	}
	headers(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if budget != nil {
			budgetHeaders(w.Header(), budget)
		}
		new(edge).fail(w, r, cause)
	})).ServeHTTP(w, r)
	telemetry.EventOf(r.Context()).Cause = nil
	return true
}
