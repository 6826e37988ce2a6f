package partner

import (
	"cmp"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"connect-svc/internal/foundation/text"
)

// The checks of single fields and grants accept exactly what the document's whole schema accepts.
func TestFieldsAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	operations, err := readOperations()
	if err != nil {
		t.Fatal(err)
	}
	odd := rapid.OneOf(rapid.SampledFrom([]string{"refresh_token", verifier[1:], "x", strings.Repeat("x", 2049)}),
		rapid.StringN(1, 50, -1).Filter(text.IsStorable))
	grants := []string{"", "authorization_code", "refresh_token"} // and a revocation
	// form returns the fields of a grant, of which some are there or not, or odd, otherwise than they should be.
	form := func(grant string, sometimes func(what string) bool, odd func(name string) string) (*operation, map[string]any) {
		op, takes := operations["POST /oauth/token"], append([]string{"grant_type"}, grantFields[grant]...)
		if grant == "" {
			op, takes = operations["POST /oauth/revoke"], []string{"token", "token_type_hint"}
		}
		right := map[string]string{"grant_type": grant, "code_verifier": verifier, "token_type_hint": "access_token"}
		fields := map[string]any{}
		for _, name := range op.fields {
			if slices.Contains(takes, name) == sometimes(name+" is otherwise") {
				continue
			}
			fields[name] = cmp.Or(right[name], "x")
			if sometimes(name + " is odd") {
				fields[name] = odd(name)
			}
		}
		return op, fields
	}
	for _, grant := range grants {
		op, fields := form(grant, func(string) bool { return false }, nil)
		if got, want := op.checkFields(fields), op.Validate(fields); got != nil || want != nil {
			t.Errorf("%q: %v, the document: %v", fields, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		op, fields := form(rapid.SampledFrom(grants).Draw(t, "grant"),
			func(what string) bool { return rapid.IntRange(0, 9).Draw(t, what) == 0 },
			func(name string) string { return odd.Draw(t, name) })
		got, want := op.checkFields(fields), op.Validate(fields)
		if (got == nil) != (want == nil) {
			t.Fatalf("%q: %v, the document: %v", fields, got, want)
		}
	})
}

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
