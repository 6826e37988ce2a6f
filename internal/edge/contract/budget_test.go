package contract

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/chi/v5"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/foundation/telemetry"
)

// sender is a request, as far as it has come.
type sender struct {
	read, inside atomic.Bool // its body was read, and its operation carried out
	leave        chan struct{}
	answer       atomic.Pointer[httptest.ResponseRecorder] // nil until it is complete
}

type senderKey struct{}

// Read is of the request's body.
func (s *sender) Read(p []byte) (int, error) {
	s.read.Store(true)
	return copy(p, `{"daily_steps":[]}`), io.EOF
}

// A large body is not read before there is memory for it. It waits for a bounded time, and a small one never does.
func TestBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const patience = 5 * time.Second
		api, err := NewAPI(Document(operatorapi.GetSpecJSON), Busy)
		if err != nil {
			t.Fatal(err)
		}
		api.Budget = NewBudget(2*cost(MaxBody), patience)
		handler := telemetry.Requests(telemetry.NewLogger(io.Discard, slog.LevelError), api.Handler(func(router chi.Router) {
			router.Post("/operator/v1/activity", func(w http.ResponseWriter, r *http.Request) {
				s, _ := r.Context().Value(senderKey{}).(*sender)
				s.inside.Store(true)
				<-s.leave
				w.WriteHeader(http.StatusNoContent)
			})
		}))
		send := func(length int64) *sender {
			s := &sender{leave: make(chan struct{})}
			request := httptest.NewRequestWithContext(context.WithValue(t.Context(), senderKey{}, s), http.MethodPost, "/operator/v1/activity", s)
			request.ContentLength = length
			request.Header.Set("Content-Type", "application/json")
			go func() {
				answer := httptest.NewRecorder()
				handler.ServeHTTP(answer, request)
				s.answer.Store(answer)
			}()
			synctest.Wait()
			return s
		}
		first, second, third := send(MaxBody), send(MaxBody), send(MaxBody)
		unknown, small := send(-1), send(freeBody)
		if !first.inside.Load() || !second.inside.Load() || third.read.Load() || unknown.read.Load() {
			t.Error("there is memory for two")
		}
		if !small.inside.Load() {
			t.Error("a small one waits")
		}
		<-time.After(patience - 1)
		close(first.leave)
		synctest.Wait()
		if !third.inside.Load() || unknown.read.Load() {
			t.Error("one has come in for the one that left")
		}
		<-time.After(1)
		synctest.Wait()
		got := unknown.answer.Load()
		if got == nil || unknown.inside.Load() {
			t.Fatal("nobody waits for longer")
		}
		if got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") == "" {
			t.Errorf("it is answered %d, Retry-After %q", got.Code, got.Header().Get("Retry-After"))
		}
		for _, s := range []*sender{second, third, small} {
			close(s.leave)
			synctest.Wait()
			if got := s.answer.Load(); got == nil || got.Code != http.StatusNoContent {
				t.Error("what came in is not answered")
			}
		}
	})
}

// A body that costs more than all that there is has all of it for itself.
func TestBudgetOfLittle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		budget := NewBudget(1, time.Second)
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", new(sender))
		request.ContentLength = MaxBody
		for range 2 {
			leave, err := budget.enter(request)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := budget.enter(request); err == nil {
				t.Error("two are in at once")
			}
			leave()
		}
	})
}
