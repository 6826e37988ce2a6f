// Package operator is the edge for the service's own app, its backend and its support: the operations of api/operator.yaml over the
// domains. The private listener serves them, and the command line calls them in its own process.
//
// Package contract checks the shape of requests and writes errors.
//
// # Invariants
//
//   - Over HTTP the operator token is checked before the path. Without it, every request gets the same 401. With a read-only token,
//     every request gets the same 403, unless its method is GET. No GET changes anything, but reading the audit log, a user's activity or a
//     copy of a user's data is audited (TestToken, TestNamedTokens, TestListingOfTheLogIsAudited, TestReadUserActivity).
//   - The holder of the token is the actor of the request's changes, see package actor (TestNamedTokens).
//   - A secret is only in the response of the operation that creates it (TestClients, TestWebhooks).
//   - Every list has pages, and an index in its order. A cursor continues only its own list with its own filters (TestPages,
//     TestListsUseIndexes, TestBadCursorsAndQueries).
//   - The package logs no path, no query and no body (TestEvents).
package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/admin/lookup"
	"connect-svc/internal/admin/operators"
	"connect-svc/internal/admin/portal"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/edge/contract"
	"connect-svc/internal/edge/preview"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/work"
	"github.com/go-chi/chi/v5"
	openapi_types "github.com/oapi-codegen/runtime/types"
)

// Path begins every path of the operator API.
const Path = "/operator/"

// Config of the edge. Every field but the last three is required; InProcess needs no Operators and Limits.
type Config struct {
	preview.Domains
	Operators *operators.Tokens
	BaseURL   string // of the public listener, which serves the portal
	Now       func() time.Time
	Limits    work.Limits      // of requests' time
	Budget    *contract.Budget // of the memory for bodies; nil: unlimited
	// InProcess is for a caller in the same process, such as the command line. It needs no token: the actor is that of the request's context. It
	// has no time limit: the request ends with its context.
	InProcess bool
}

// handlers implements the operations. If one returns an error, the generated server writes the error and ignores the response.
type handlers struct {
	Config
	api *contract.API
}

var _ operatorapi.StrictServerInterface = handlers{}

var document = contract.Document(operatorapi.GetSpecJSON)

// New returns the handler for the paths below [Path]. Mount it behind telemetry.Requests, which makes the request ids. It fails only
// if the embedded document is not usable.
func New(config Config) (http.Handler, error) {
	api, err := contract.NewAPI(document, failures...)
	if err != nil {
		return nil, fmt.Errorf("operator: %w", err)
	}
	api.Budget, api.Gzip = config.Budget, true
	h := handlers{config, api}
	strict := operatorapi.NewStrictHandlerWithOptions(h, nil, operatorapi.StrictHTTPServerOptions{
		RequestErrorHandlerFunc:  api.Fail,
		ResponseErrorHandlerFunc: func(w http.ResponseWriter, r *http.Request, err error) { api.Fail(w, r, Fields(err)) },
	})
	mount := func(router chi.Router) {
		operatorapi.HandlerWithOptions(strict, operatorapi.ChiServerOptions{BaseRouter: router, ErrorHandlerFunc: api.Fail})
	}
	if config.InProcess {
		return api.Handler(mount), nil
	}
	api.Limits = new(config.Limits.OrDefault())
	return api.Handler(mount, h.authenticate), nil
}

var (
	errUnauthorized = errors.New("no operator token")
	// errNotReplayable stands for webhook.ErrNoEndpoint if the request names an event.
	errNotReplayable = errors.New("the client of the event has no webhook")
)

// Unauthorized is the code of a request without a token.
const Unauthorized = "unauthorized"

// failures lists the errors of this edge. Tests compare the texts with the document's examples.
var failures = []contract.Failure{
	{Err: errUnauthorized, Code: Unauthorized, Text: "The operator token is missing or wrong.", Status: 401,
		Challenge: `Bearer realm="svc-operator"`},
	{Err: operators.ErrReadOnly, Code: "read-only", Text: "The operator token, or this server, may not change anything.", Status: 403},
	{Err: refusal.ErrUserNotFound, Code: "user-not-found", Text: "There is no such user.", Status: 404},
	{Err: account.ErrUserExists, Code: "user-exists", Text: "A user with this id exists.", Status: 409},
	{Err: account.ErrUserDeleted, Code: "user-deleted", Text: "A user with this id was deleted.", Status: 409},
	{Err: account.ErrEmailTaken, Code: "email-taken", Text: "Another user has this e-mail address.", Status: 409},
	{Err: page.ErrCursor, Code: "invalid-cursor", Text: "The cursor does not continue this list.", Status: 400},
	{Err: refusal.ErrClientNotFound, Code: "client-not-found", Text: "There is no such client.", Status: 404},
	{Err: refusal.ErrClientOffboarded, Code: "client-offboarded", Text: "The client was offboarded.", Status: 409},
	{Err: portal.ErrClientDisabled, Code: "client-disabled", Text: "The client is disabled.", Status: 409},
	{Err: portal.ErrTooMany, Code: "too-many-portal-sessions", Text: "The client has as many links and sessions as it may have.", Status: 409},
	{Err: portal.ErrNoSession, Code: "portal-session-not-found", Text: "There is no such link or session.", Status: 404},
	{Err: client.ErrNoChangeRequest, Code: "change-request-not-found", Text: "There is no such request for a change.", Status: 404},
	{Err: lookup.ErrSeveral, Code: "several-clients", Text: "Several clients have this name.", Status: 409},
	{Err: webhook.ErrNoEndpoint, Code: "no-webhook", Text: "The client has no webhook.", Status: 404},
	{Err: errNotReplayable, Code: "not-replayable", Text: "The client of the event has no webhook any more.", Status: 409},
	{Err: webhook.ErrStopped, Code: "webhook-stopped", Text: "The webhook was stopped.", Status: 409},
	{Err: webhook.ErrNoEvent, Code: "webhook-event-not-found", Text: "There is no such event.", Status: 404},
	{Err: refusal.ErrOverBudget, Code: "over-budget", Text: "This was done as often within an hour as it may be.", Status: 429},
	contract.Busy,
	contract.Encoding,
	{Err: oauth.ErrNotConnected, Code: "not-connected", Text: "The user is not connected with this company.", Status: 404},
}

// authenticate requires an operator token in exactly one Authorization header (RFC 6750, section 2.1), and makes its holder the
// actor. Every method except GET changes something.
func (h handlers) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var holder operators.Operator
		known := false
		if given := r.Header.Values("Authorization"); len(given) == 1 {
			if token, isBearer := contract.Authorization(given[0], "Bearer"); isBearer {
				holder, known = h.Operators.Find(token)
			}
		}
		telemetry.EventOf(r.Context()).Operator = holder.Name
		switch {
		case !known:
			h.api.Fail(w, r, errUnauthorized)
		case holder.ReadOnly && r.Method != http.MethodGet:
			h.api.Fail(w, r, operators.ErrReadOnly)
		default:
			next.ServeHTTP(w, r.WithContext(work.WithActor(r.Context(), holder.Name)))
		}
	})
}

// each converts rows to bodies. The list is never null in JSON.
func each[T, B any](rows []T, body func(T) B) []B {
	bodies := make([]B, len(rows))
	for i, row := range rows {
		bodies[i] = body(row)
	}
	return bodies
}

// ReadUserActivity returns what is recorded of a user and what partners see of it. The audit log records that it was read.
func (h handlers) ReadUserActivity(
	ctx context.Context, request operatorapi.ReadUserActivityRequestObject,
) (operatorapi.ReadUserActivityResponseObject, error) {
	dates := activity.Range{From: request.Params.From.Time, To: request.Params.To.Time}
	if dates.To.Before(dates.From) || !dates.To.Before(dates.From.AddDate(0, 0, activity.MaxViewDates)) {
		return nil, contract.ErrMalformed
	}
	user, err := h.Accounts.GetUser(ctx, request.UserId)
	if err != nil {
		return nil, err
	}
	view, err := h.Activity.View(ctx, user.ID, dates)
	if err != nil {
		return nil, err
	}
	connections, err := h.OAuth.ConnectionsOfUser(ctx, user.ID)
	return operatorapi.ReadUserActivity200JSONResponse{
		UserId: user.ID, From: request.Params.From, To: request.Params.To, Complete: view.Complete, Readers: readersOf(user, connections),
		Days: each(view.Days, viewedDayBody), Rides: each(view.Rides, rideBody),
		Adjustments: each(view.Adjustments, func(a activity.Adjustment) operatorapi.WrittenAdjustment {
			return operatorapi.WrittenAdjustment{
				AdjustmentId: a.ID, Dataset: operatorapi.AdjustedDataset(a.Dataset), Date: openapi_types.Date{Time: a.Date},
				Delta: int32(a.Delta), Note: a.Note, CreatedAt: instant(a.CreatedAt), Actor: orNull(a.Actor),
			}
		}),
		RemovedAdjustments: each(view.Removed, func(a activity.RemovedAdjustment) operatorapi.RemovedAdjustment {
			return operatorapi.RemovedAdjustment{
				AdjustmentId: a.ID, Dataset: operatorapi.AdjustedDataset(a.Dataset), Date: openapi_types.Date{Time: a.Date}, At: instant(a.At),
				Actor: a.Actor,
			}
		}),
	}, err
}

// readersOf returns the clients that can read the user's activity now, and since which dates.
func readersOf(user account.User, connections []oauth.Connection) []operatorapi.Reader {
	readers := []operatorapi.Reader{}
	for _, connection := range connections {
		if connection.State != oauth.Authorized || connection.ClientStatus != string(client.Active) {
			continue
		}
		reader := operatorapi.Reader{ClientId: connection.Partner.ClientID, ClientName: connection.Partner.Name}
		first := func(dataset activity.Dataset) *openapi_types.Date {
			reader := activity.Reader{HistoryFrom: connection.HistoryFrom, RegisteredOn: user.RegisteredOn}
			return &openapi_types.Date{Time: reader.FirstDate(dataset)}
		}
		if connection.Scopes.Contains(scope.DailySteps) {
			reader.StepsFrom = first(activity.DatasetDailySteps)
		}
		if connection.Scopes&(scope.CyclingDaily|scope.CyclingActivities) != 0 {
			reader.CyclingFrom = first(activity.DatasetCyclingDaily)
		}
		readers = append(readers, reader)
	}
	return readers
}

func viewedDayBody(day activity.ViewedDay) operatorapi.UserActivityDay {
	figures := func(f activity.ViewedFigures) operatorapi.DayFigures {
		body := operatorapi.DayFigures{Adjusted: f.Adjusted, Seen: f.Seen}
		if f.IsRecorded {
			body.Recorded = &f.Recorded
		}
		return body
	}
	return operatorapi.UserActivityDay{Date: openapi_types.Date{Time: day.Date}, Steps: figures(day.Steps), Cycling: figures(day.Cycling)}
}

func rideBody(ride activity.RecordedRide) operatorapi.RecordedRide {
	const clock = "2006-01-02T15:04:05.000000"
	body := operatorapi.RecordedRide{
		SourceId: ride.SourceID, RecordedStartTime: ride.StartTime.Format(clock), DistanceMeters: ride.DistanceMeters,
	}
	if ride.EndTime != nil {
		body.RecordedEndTime = new(ride.EndTime.Format(clock))
	}
	return body
}

// jsonFields maps the domains' fields to their names in JSON, if these differ by more than hyphens.
var jsonFields = map[string]string{"callback": "callback_url", "homepage": "homepage_url", "scope": "scopes", "overlap": "overlap_seconds"}

func jsonField(name string) string {
	return cmp.Or(jsonFields[name], strings.ReplaceAll(name, "-", "_"))
}

// Fields names the fields that a domain refuses as they are in the JSON body, by pointers (RFC 6901). It returns other errors unchanged.
// The sandbox's driver uses it, too.
func Fields(err error) error {
	fields := slices.Clone(refusal.FieldsOf(err))
	for i, field := range fields {
		switch {
		case field.Row > 0: // the only lists whose rows are not named by pointers are those of users
			fields[i] = refusal.Field{Path: fmt.Sprintf("/users/%d/%s", field.Row-1, field.Path), Problem: field.Problem}
		case field.Path != "" && !strings.HasPrefix(field.Path, "/"):
			fields[i].Path = "/" + jsonField(field.Path)
		}
	}
	if len(fields) > 0 {
		return refusal.Join(fields)
	}
	return err
}
