package operator

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"connect-svc/internal/edge/contract"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/work"
)

// Operations on many rows (a copy of a user has any number), on the connections of a client, or with a partner's server may take as long as a batch. The document says which.
func TestTimeOfOperations(t *testing.T) {
	t.Parallel()
	operations, err := document()
	if err != nil {
		t.Fatal(err)
	}
	var slow []string
	for _, op := range operations {
		if op.Batch {
			slow = append(slow, op.ID)
		}
	}
	slices.Sort(slow)
	if want := []string{"exportUser", "offboardClient", "previewActivity", "putActivity", "putUsers", "revokeClientTokens", "testWebhook"}; !slices.Equal(slow, want) {
		t.Errorf("%q may take as long as a batch, want %q", slow, want)
	}

	left := map[string]time.Duration{}
	record := func(_ http.ResponseWriter, r *http.Request) {
		deadline, _ := r.Context().Deadline()
		left[r.Method] = time.Until(deadline).Round(time.Hour)
	}
	for name, test := range map[string]struct {
		limits    *work.Limits
		get, post time.Duration
	}{
		"limits":    {&work.Limits{Act: time.Hour, Batch: 3 * time.Hour}, time.Hour, 3 * time.Hour},
		"no limits": {nil, time.Until(time.Time{}).Round(time.Hour), time.Until(time.Time{}).Round(time.Hour)},
	} {
		api, err := contract.NewAPI(document)
		if err != nil {
			t.Fatal(err)
		}
		api.Limits = test.limits
		const client = Path + "v1/clients/{client_id}"
		handler := telemetry.Requests(slog.New(slog.DiscardHandler), api.Handler(func(router chi.Router) {
			router.Get(client, record)
			router.Post(client+"/offboard", record)
		}))
		for method, path := range map[string]string{http.MethodGet: client, http.MethodPost: client + "/offboard"} {
			r := httptest.NewRequest(method, strings.ReplaceAll(path, "{client_id}", "0b6f1a52-3a8e-4a3c-9b8d-6b1f0c7f2d10"), nil)
			handler.ServeHTTP(httptest.NewRecorder(), r)
		}
		if left[http.MethodGet] != test.get || left[http.MethodPost] != test.post {
			t.Errorf("%s: reading may take %s and offboarding %s", name, left[http.MethodGet], left[http.MethodPost])
		}
	}
	text := func() ([]byte, error) {
		return []byte(`{"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {"/x": {"get": {"operationId": "x", "x-time-limit": "long", "responses": {}}}}}`), nil
	}
	if _, err := contract.Read(text, "application/json"); err == nil || !strings.Contains(err.Error(), "x-time-limit") {
		t.Errorf("an unknown time limit: %v", err)
	}
}
