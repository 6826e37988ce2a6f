package contract

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/foundation/telemetry"
)

// No body costs more than a full batch, and one of a shape that no document has next to nothing. This test is not parallel:
// it measures what the whole process allocates.
func TestHostileBodies(t *testing.T) {
	api, err := NewAPI(Document(operatorapi.GetSpecJSON))
	if err != nil {
		t.Fatal(err)
	}
	handler := telemetry.Requests(telemetry.NewLogger(io.Discard, slog.LevelError), api.Handler(func(router chi.Router) {
		router.Post("/operator/v1/activity", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	}))
	each := func(n int, format string) string {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, format, i)
		}
		return strings.TrimSuffix(text.String(), ",")
	}
	nested := func(n int, open, inside, end string) string {
		return strings.Repeat(open, n) + inside + strings.Repeat(end, n)
	}
	ride := `{"user_id":"3f0a4bd6-9d5c-4d8a-9a53-7d1f6f1f8a01","source_id":"ride-%d","recorded_start_time":"2026-03-09T10:00:00",` +
		`"recorded_end_time":"2026-03-09T11:00:00","distance_meters":12345},`
	for name, test := range map[string]struct {
		status int
		body   string
	}{
		"the largest batch":        {204, `{"cycling_activities":[` + each(10_000, ride) + `]}`},
		"9 levels of lists":        {400, nested(9, "[", "", "]")},
		"8 levels of lists":        {422, nested(8, "[", "", "]")},
		"9 levels of objects":      {400, nested(9, `{"a":`, "1", "}")},
		"deep lists":               {400, nested(27_000, "[", "", "]")},
		"deep lists in a field":    {400, `{"daily_steps":` + nested(27_000, "[", "", "]") + `}`},
		"deep lists, not closed":   {400, strings.Repeat("[", 54_000)},
		"deep objects":             {400, nested(9_000, `{"a":`, "1", "}")},
		"deep mixture":             {400, nested(6_000, `[{"a":`, "1.5", "}]")},
		"as deep as the decoder":   {400, nested(9_990, "[", "1.5", "]")},
		"a repeated name":          {400, `{` + strings.Repeat(`"a":1,`, 9_000) + `"a":1}`},
		"a repeated name, escaped": {400, `{"a":1,"\u0061":1}`},
		"many names":               {400, `{` + each(9_000, `"%d":1,`) + `}`},
		"many names in a row":      {400, `{"daily_steps":[{` + each(9_000, `"%d":1,`) + `}]}`},
		"many fractions":           {422, `{"daily_steps":[` + each(90_000, `%d.5,`) + `]}`},
		"many unknown names":       {422, `{"daily_steps":[` + each(10_000, `{"user":1,"day":2,"foot":3,"hand":4,"step%d":5},`) + `]}`},
		"many empty rows":          {422, `{"daily_steps":[` + strings.Repeat(`{},`, 9_999) + `{}` + `]}`},
		"more values than a batch": {413, `{"daily_steps":[` + each(100_000, `%d,`) + `]}`},
		"values without an end":    {413, `{"daily_steps":[` + each(1_000_000, `%d,`)},
		"a long name":              {422, `{"` + strings.Repeat("a", 1<<20) + `":1.5}`},
	} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/operator/v1/activity", strings.NewReader(test.body))
		request.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		handler.ServeHTTP(answer, request)
		runtime.ReadMemStats(&after)
		if answer.Code != test.status {
			t.Errorf("%s: %d %.200s, want %d", name, answer.Code, answer.Body, test.status)
		}
		allocated := after.TotalAlloc - before.TotalAlloc
		most := uint64(160 << 20) // a full batch takes 66 MB; the race detector adds
		if test.status == http.StatusBadRequest {
			most = uint64(256<<10 + 4*len(test.body))
		}
		if allocated > most {
			t.Errorf("%s: a body of %d kB allocates %d kB", name, len(test.body)>>10, allocated>>10)
		}
		if answer.Body.Len() > 64<<10 {
			t.Errorf("%s: %d bytes are responded", name, answer.Body.Len())
		}
	}
}
