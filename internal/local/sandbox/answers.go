package sandbox

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"

	"connect-svc/gen/partnerapi"
	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/api/contract"
	"connect-svc/internal/api/partner"
	"connect-svc/internal/ratelimit"
	"connect-svc/internal/telemetry"
)

// failure is an error of the partner API.
type failure struct {
	status int
	code   string
}

// waiting is an error that the next requests for an operation get.
type waiting struct {
	failure
	times int
}

// operation of the partner API.
type operation struct {
	id string
	// failures are the errors that its document has, and whether such a request was counted by the rate limiter.
	failures map[failure]bool
}

// answers are the errors that wait, in front of the service.
type answers struct {
	routes     *chi.Mux
	operations map[string]operation // by method and path

	mu      sync.Mutex
	waiting map[string][]waiting // by the id of the operation, in the order in which they come
}

// newAnswers reads the partners' document.
func newAnswers() (*answers, error) {
	document, err := partnerapi.GetSpec()
	if err != nil {
		return nil, err
	}
	a := &answers{routes: chi.NewMux(), operations: map[string]operation{}, waiting: map[string][]waiting{}}
	for path, item := range document.Paths.Map() {
		for method, described := range item.Operations() {
			a.routes.MethodFunc(method, path, http.NotFound) // only ever asked whether it matches
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
			all[failure{status, code}] = budget && code != "invalid_request" // what is malformed is not counted
		}
	}
	return all
}

// codeOf is the code of an error in either shape.
func codeOf(example any) string {
	body, _ := example.(map[string]any)
	if detail, inside := body["error"].(map[string]any); inside {
		code, _ := detail["code"].(string)
		return code
	}
	code, _ := body["error"].(string)
	return code
}

// before stands before the service and gives the answers that wait.
func (a *answers) before(service http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		op, is := a.route(r)
		if !is || !a.answer(w, r, op) {
			service.ServeHTTP(w, r)
		}
	})
}

// route finds the operation of a request.
func (a *answers) route(r *http.Request) (operation, bool) {
	path := r.URL.RawPath
	if path == "" {
		path = r.URL.Path
	}
	matched := chi.NewRouteContext()
	if !a.routes.Match(matched, r.Method, path) || slices.Contains(matched.URLParams.Values, "") {
		return operation{}, false
	}
	op, is := a.operations[r.Method+" "+matched.RoutePattern()]
	return op, is
}

// answer gives the next error that waits for the operation, if there is one.
func (a *answers) answer(w http.ResponseWriter, r *http.Request, op operation) bool {
	next, is := a.take(op.id)
	if !is {
		return false
	}
	telemetry.EventOf(r.Context()).Operation = op.id
	var budget *ratelimit.Decision
	if op.failures[next] {
		budget = &ratelimit.Decision{Allowed: true, Limit: policy.RequestsPerMinute, Remaining: policy.Burst - 1, ResetSeconds: 1}
		if next.status == http.StatusTooManyRequests {
			budget.Allowed, budget.Remaining, budget.RetryAfterSeconds = false, 0, 1
		}
	}
	return partner.Fail(w, r, next.status, next.code, budget)
}

func (a *answers) take(id string) (failure, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := a.waiting[id]
	if len(list) == 0 {
		return failure{}, false
	}
	if list[0].times--; list[0].times == 0 {
		a.waiting[id] = list[1:]
	}
	return list[0].failure, true
}

// force adds an error for the next requests. It is false where the document does not have it.
func (a *answers) force(id string, f failure, times int) bool {
	for _, op := range a.operations {
		if _, documented := op.failures[f]; op.id == id && documented {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.waiting[id] = append(a.waiting[id], waiting{f, times})
			return true
		}
	}
	return false
}

func (a *answers) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.waiting)
}

// ForceAnswers has the next requests for an operation answered with an error.
func (d driver) ForceAnswers(
	ctx context.Context, request sandboxapi.ForceAnswersRequestObject,
) (sandboxapi.ForceAnswersResponseObject, error) {
	times := 1
	if request.Body.Times != nil {
		times = int(*request.Body.Times)
	}
	f := failure{int(request.Body.Status), request.Body.Code}
	if !d.answers.force(string(request.Body.OperationId), f, times) {
		return nil, contract.Field("must be an error that openapi.yaml has for the operation, with this status", "code")
	}
	return sandboxapi.ForceAnswers204Response{Headers: sandboxapi.ForceAnswers204ResponseHeaders(okHeaders(ctx))}, nil
}

// ForgetAnswers has all operations answer by themselves again.
func (d driver) ForgetAnswers(
	ctx context.Context, _ sandboxapi.ForgetAnswersRequestObject,
) (sandboxapi.ForgetAnswersResponseObject, error) {
	d.answers.forget()
	return sandboxapi.ForgetAnswers204Response{Headers: sandboxapi.ForgetAnswers204ResponseHeaders(okHeaders(ctx))}, nil
}
