package httpapi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// What is remembered of a form's shape is what the document says of each form that has it.
func TestShapesAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	operations, err := readContract()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"POST /oauth/token", "POST /oauth/revoke"} {
		form := operations[path].form
		if !slices.ContainsFunc(form.names, func(name string) bool { return len(form.Properties[name].Value.Enum) > 0 }) {
			t.Errorf("%s: no field of the form is chosen from a list", path)
		}
		rapid.Check(t, func(t *rapid.T) {
			fields := map[string]any{}
			for _, name := range form.names {
				schema := form.Properties[name].Value
				values := rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9._~-]{43,60}`), rapid.StringN(1, 50, 2048))
				if list := schema.Enum; len(list) > 0 {
					values = rapid.Custom(func(t *rapid.T) string { return rapid.SampledFrom(list).Draw(t, "listed").(string) })
				}
				value := values.Draw(t, name)
				if rapid.Bool().Draw(t, "given") && schema.VisitJSON(value) == nil {
					fields[name] = value
				}
			}
			if got, want := form.accepts(fields), form.whole.Validate(fields) == nil; got != want {
				t.Fatalf("%q: accepted %t, want %t", fields, got, want)
			}
		})
	}
}

// BenchmarkValidation is what the checks against the document cost for the requests that come most often.
func BenchmarkValidation(b *testing.B) {
	operations, err := readContract()
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
