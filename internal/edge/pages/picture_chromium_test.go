package pages

import (
	"bytes"
	"image"
	"image/png"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/testing/browsertest"
)

// TestChromiumPicturesOfREADME: README.md shows the consent page in light and in dark, as it is now. With CONNECT_TEST_RENEW=1 the test
// makes the pictures anew. Machines draw letters differently, so it compares sizes, to a tenth: they change with what is on the page.
func TestChromiumPicturesOfREADME(t *testing.T) {
	t.Parallel()
	handler, err := Preview(brand.Brand{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	tab := browsertest.Share(t, nil).NewTab(t)
	tab.Do(chromedp.EmulateViewport(640, 400))
	for _, scheme := range []string{"light", "dark"} {
		tab.Media("prefers-color-scheme", scheme)
		tab.Open(server.URL + "/en/consent")
		now, name := filepath.Join(t.TempDir(), "now.png"), "docs/consent-"+scheme+".png"
		tab.Screenshot(now)
		kept := "../../../" + name
		if os.Getenv("CONNECT_TEST_RENEW") == "1" {
			kept = now
			if err := os.WriteFile("../../../"+name, contentOf(t, now), 0o644); err != nil { //nolint:gosec // a file of the repository
				t.Fatal(err)
			}
		}
		got, want := sizeOf(t, kept), sizeOf(t, now)
		if got.Width != want.Width || math.Abs(float64(got.Height-want.Height)) > float64(want.Height)/10 {
			t.Errorf("%s has %d × %d pixels, and the page %d × %d: make it anew with CONNECT_TEST_RENEW=1", name, got.Width, got.Height, want.Width, want.Height)
		}
		if n := len(contentOf(t, kept)); n > 200<<10 {
			t.Errorf("%s has %d bytes", name, n)
		}
		if !strings.Contains(string(readme), `"`+name+`"`) {
			t.Errorf("README.md does not show %s", name)
		}
	}
}

func contentOf(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func sizeOf(t *testing.T, file string) image.Config {
	t.Helper()
	picture, err := png.DecodeConfig(bytes.NewReader(contentOf(t, file)))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return picture
}
