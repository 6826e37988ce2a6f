package partner

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// BenchmarkValidation is what the checks against the document cost for the requests that come most often.
func BenchmarkValidation(b *testing.B) {
	operations, err := readOperations()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("read", func(b *testing.B) {
		op := operations["GET /connect-svc/v1/grants/{grant_id}/cycling-activities"]
		request := httptest.NewRequest(http.MethodGet, "/x?from=2026-03-01&to=2026-03-31&limit=500", nil)
		b.ReportAllocs()
		for b.Loop() {
			if err := op.checkRead(request, baseURL); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("refresh", func(b *testing.B) {
		op := operations["POST /oauth/token"]
		body := "grant_type=refresh_token&refresh_token=svcr2_" + strings.Repeat("x", 140)
		b.ReportAllocs()
		for b.Loop() {
			request := &http.Request{Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{"Content-Type": {formType}}}
			fields, err := op.readForm(request)
			if err != nil {
				b.Fatal(err)
			}
			if err := op.checkFields(fields); err != nil {
				b.Fatal(err)
			}
		}
	})
}
