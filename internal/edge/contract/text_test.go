package contract

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/foundation/telemetry"
)

// A decoder of JSON replaces what is not Unicode, so that two texts become one. Such a text is refused with its place, and what only looks
// like it is taken as it is.
func TestTextThatADecoderRepairs(t *testing.T) {
	t.Parallel()
	api, err := NewAPI(Document(operatorapi.GetSpecJSON))
	if err != nil {
		t.Fatal(err)
	}
	var taken string
	handler := telemetry.Requests(telemetry.NewLogger(io.Discard, slog.LevelError), api.Handler(func(router chi.Router) {
		router.Post("/operator/v1/activity", func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			taken = string(body)
			w.WriteHeader(http.StatusNoContent)
		})
	}))
	const before = `{"cycling_activities":[` +
		`{"user_id":"3f0a4bd6-9d5c-4d8a-9a53-7d1f6f1f8a01","source_id":"first","recorded_start_time":"2026-03-09T10:00:00","distance_meters":1},` +
		`{"user_id":"3f0a4bd6-9d5c-4d8a-9a53-7d1f6f1f8a01","source_id":"`
	const after = `","recorded_start_time":"2026-03-09T10:00:00","distance_meters":1}]}`
	tildes := strings.Repeat("~", 99)
	const named = `"pointer":"/cycling_activities/1/source_id","detail":"must be Unicode: it has half of a surrogate pair"`
	for text, want := range map[string]struct {
		status int
		says   string
	}{
		`a\ud800`:              {422, named},
		`\uDBFFa`:              {422, named},
		`\udc00`:               {422, named},
		`\ud800\ud800\udc00`:   {422, named},
		`\udc00\ud800`:         {422, named},
		`\ud800\n`:             {422, named},
		`\ud800\\udc00`:        {422, named},
		`\ufffd \ud83d`:        {422, named},
		`\ud83d\ude00`:         {204, ""},
		`\\ud800`:              {204, ""},
		`\\\\ud800\\`:          {204, ""},
		`\ufffd`:               {204, ""},
		"\ufffd\U0001f600":     {204, ""},
		"a\xffb":               {400, "malformed"},
		"\xed\xa0\x80":         {400, "malformed"}, // a surrogate in UTF-8
		`","source_id":"twice`: {400, "malformed"},
		`a","\ud800":"a`:       {422, "is not known"},
		`a"},{` + strings.Repeat(`"`+tildes+`":{`, 4) + `"a":"\ud800`: {422, // the document bounds pointers
			`"pointer":"/cycling_activities/2` + strings.Repeat("/"+strings.ReplaceAll(tildes, "~", "~0"), 2) + `","detail":"must be Unicode`},
		`a"},{"` + strings.Repeat("a", 1000) + `":"\ud800`: {422, `"pointer":"/cycling_activities/2","detail":"has a field that is not known"`},
	} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/operator/v1/activity", strings.NewReader(before+text+after))
		request.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		taken = ""
		handler.ServeHTTP(answer, request)
		if answer.Code != want.status || !strings.Contains(answer.Body.String(), want.says) {
			t.Errorf("%q: %d %s, want %d %s", text, answer.Code, answer.Body, want.status, want.says)
		}
		if want.status == http.StatusNoContent && taken != before+text+after {
			t.Errorf("%q became %q", text, taken)
		}
	}
}
