package sandbox

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"connect-svc/gen/partnerapi"
	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/domain/ratelimit"
	"connect-svc/internal/edge/partner"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/telemetry"
	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/uuid"
)

type failure struct {
	status int
	code   string
}

type operation struct {
	id string
	// failures are the errors in the document, and whether the rate limiter counts a request that gets one.
	failures map[failure]bool
}

// answers stands in front of the service and returns the errors that a test has forced.
type answers struct {
	routes     *http.ServeMux       // only finds the pattern of a request
	operations map[string]operation // by pattern: method and path

	mu     sync.Mutex
	forced map[string][]forced // by operation id: one for each request, the next one first
}

// forced is an error that a test asked for. notAttempted says in the answer that the request had no effect.
type forced struct {
	failure
	notAttempted bool
}

// newAnswers reads the operations and their errors from the document of the partner API.
func newAnswers() (*answers, error) {
	document, err := partnerapi.GetSpec()
	if err != nil {
		return nil, err
	}
	a := &answers{routes: http.NewServeMux(), operations: map[string]operation{}, forced: map[string][]forced{}}
	for path, item := range document.Paths.Map() {
		for method, described := range item.Operations() {
			a.routes.HandleFunc(method+" "+path, http.NotFound)
			a.operations[method+" "+path] = operation{described.OperationID, failuresOf(described)}
		}
	}
	return a, nil
}

func failuresOf(described *openapi3.Operation) map[failure]bool {
	all := map[failure]bool{}
	for text, response := range described.Responses.Map() {
		status, err := strconv.Atoi(text)
		if err != nil || status < http.StatusBadRequest {
			continue
		}
		for _, example := range response.Value.Content.Get("application/json").Examples {
			code := codeOf(example.Value.Value)
			_, budget := response.Value.Headers["RateLimit-Limit"]
			all[failure{status, code}] = budget && code != "invalid_request" // malformed requests are not counted
		}
	}
	return all
}

// codeOf returns the code of an error in either shape.
func codeOf(example any) string {
	body, _ := example.(map[string]any)
	if detail, inside := body["error"].(map[string]any); inside {
		code, _ := detail["code"].(string)
		return code
	}
	code, _ := body["error"].(string)
	return code
}

// before passes on a request, unless an error of its operation is forced.
func (a *answers) before(service http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, pattern := a.routes.Handler(r)
		op := a.operations[pattern] // a pattern of GET also matches HEAD; none has no forced error
		a.mu.Lock()
		list := a.forced[op.id]
		if len(list) > 0 {
			a.forced[op.id] = list[1:]
		}
		a.mu.Unlock()
		if len(list) == 0 {
			service.ServeHTTP(w, r)
			return
		}
		next, event := list[0], telemetry.EventOf(r.Context())
		event.Operation, event.Reason = op.id, "forced by POST /sandbox/answers"
		var budget *ratelimit.Decision
		if op.failures[next.failure] {
			budget = &ratelimit.Decision{Allowed: true, Limit: policy.RequestsPerMinute, Remaining: policy.Burst - 1, ResetSeconds: 1}
			if next.status == http.StatusTooManyRequests {
				budget.Allowed, budget.Remaining, budget.RetryAfterSeconds = false, 0, 1
			}
		}
		if next.notAttempted {
			partner.SayNotAttempted(w.Header())
		}
		if !partner.Fail(w, r, next.status, next.code, budget) {
			service.ServeHTTP(w, r)
		}
	})
}

// ForceAnswers makes the next requests for an operation fail.
func (d driver) ForceAnswers(ctx context.Context, request sandboxapi.ForceAnswersRequestObject) (sandboxapi.ForceAnswersResponseObject, error) {
	f := forced{failure{int(request.Body.Status), request.Body.Code}, or(request.Body.NotAttempted, false)}
	if f.notAttempted && f.code != "server_error" {
		return nil, refusal.Field{Path: "not_attempted", Problem: "only goes with server_error"}
	}
	id := string(request.Body.OperationId)
	for _, op := range d.answers.operations {
		if _, documented := op.failures[f.failure]; op.id == id && documented {
			d.answers.mu.Lock()
			defer d.answers.mu.Unlock()
			d.answers.forced[id] = append(d.answers.forced[id], slices.Repeat([]forced{f}, int(or(request.Body.Times, 1)))...)
			return sandboxapi.ForceAnswers204Response{}, nil
		}
	}
	return nil, refusal.Field{Path: "code", Problem: "must be an error that openapi.yaml has for the operation, with this status"}
}

// ForgetAnswers removes all forced errors and disturbances.
func (d driver) ForgetAnswers(ctx context.Context, _ sandboxapi.ForgetAnswersRequestObject) (sandboxapi.ForgetAnswersResponseObject, error) {
	d.answers.mu.Lock()
	defer d.answers.mu.Unlock()
	clear(d.answers.forced)
	d.disturbances.mu.Lock()
	defer d.disturbances.mu.Unlock()
	d.disturbances.duplicate, d.disturbances.reorder = 0, 0
	return sandboxapi.ForgetAnswers204Response{}, nil
}

// observe lists a finished request, and writes the reason of a refusal to standard error.
func (s *sandbox) observe(event *telemetry.Event) {
	entry := sandboxapi.LoggedRequest{
		At: instant(s.clock.Now()), RequestId: event.RequestID, Operation: event.Operation, Status: event.Status,
	}
	if event.Code != "" {
		entry.Code = &event.Code
	}
	if reason := s.reasonOf(event); event.Status >= http.StatusBadRequest && reason != "" {
		entry.Reason = &reason
		if event.Cause == nil { // otherwise the event was logged as an error
			s.config.Logger.Warn("refused", slog.String("operation", event.Operation), slog.Int("status", event.Status),
				slog.String("code", event.Code), slog.String("reason", reason), slog.String("request_id", event.RequestID.String()))
		}
	}
	s.asked.mu.Lock()
	defer s.asked.mu.Unlock()
	s.asked.add(entry)
}

// ListRequests lists the requests, newest first.
func (d driver) ListRequests(ctx context.Context, _ sandboxapi.ListRequestsRequestObject) (sandboxapi.ListRequestsResponseObject, error) {
	return sandboxapi.ListRequests200JSONResponse{Data: d.asked.newestFirst()}, nil
}

// explained is the response to a request. A refusal has two more headers than that of the service, which tells nobody the reason: its
// errors have a fixed shape, so the reason does not fit into them.
type explained struct {
	http.ResponseWriter
	request *http.Request
	sandbox *sandbox
}

func (e explained) WriteHeader(status int) {
	event := telemetry.EventOf(e.request.Context())
	if reason := e.sandbox.reasonOf(event); status >= http.StatusBadRequest && reason != "" {
		e.Header().Set("X-Connect-Reason", reason)
		e.Header().Set("Link", "<"+e.sandbox.baseURL+"/developers/error-codes.html#"+event.Code+`>; rel="help"`)
	}
	e.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (e explained) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// reasonOf returns why a request was refused: also that it is for the client of another sandbox.
func (s *sandbox) reasonOf(event *telemetry.Event) string {
	if _, known := s.clients.get(event.ClaimedID); event.Code == "invalid_client" && event.ClaimedID != uuid.Nil && !known {
		return "client_id is not one of the sandbox's clients"
	}
	return event.Reason
}
