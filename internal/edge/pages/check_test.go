package pages

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"connect-svc/internal/foundation/brand"
)

// TestCheck finds what is wrong, and nothing else. The measurements of a page are those of browsertest.TestFaults.
func TestCheck(t *testing.T) {
	t.Parallel()
	p := plan{Pages: []string{"en/consent", "en/email", "en/nothing"}, Widths: []int{390}, Scales: []int{100, 200}, Schemes: []string{"dark", "light"},
		TermsWidth: 390, Height: 300}
	got, err := check(t.Context(), acme(t), nil, p)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"en/consent, 390 px, dark: what Allow is about ends at ", "en/nothing, 390 px, dark: status 404"}
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("problems %q, want %q", got, want)
	}
	p.Pages, p.Height = p.Pages[:2], 664
	if got, err := check(t.Context(), acme(t), nil, p); err != nil || len(got) != 0 {
		t.Errorf("problems of sound pages: %q, %v", got, err)
	}
	cause := errors.New("the operator is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := check(ctx, brand.Brand{}, nil, p); !errors.Is(err, cause) && !errors.Is(err, context.Canceled) {
		t.Errorf("a check that is given up: %v", err)
	}
}
