package brand

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/lucasb-eyer/go-colorful"
	"pgregory.net/rapid"
)

func TestParseColorRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"green", "#fff", "#12345g", "0b5a41", ""} {
		if _, err := ParseColor(text); err == nil || err.Error() != "is not a color" {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestColorsCanBeRead measures the contrast of each pair of colors in the style sheet that pages use together, for any color.
func TestColorsCanBeRead(t *testing.T) {
	t.Parallel()
	variable := regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{6});`)
	rapid.Check(t, func(t *rapid.T) {
		text := fmt.Sprintf("#%06x", rapid.IntRange(0, 0xffffff).Draw(t, "color"))
		color, err := ParseColor(text)
		if err != nil {
			t.Fatal(err)
		}
		both, inDark, _ := strings.Cut(color.CSS, "@media")
		values := map[string]colorful.Color{}
		for scheme, css := range []string{both, inDark} {
			for _, found := range variable.FindAllStringSubmatch(css, -1) {
				values[found[1]] = rgb(found[2])
			}
			if values["main"].Hex() != text || color.Hex != text || values["on-main"].Hex() != color.OnHex {
				t.Errorf("buttons of %s are %s, with %s", text, values["main"].Hex(), values["on-main"].Hex())
			}
			wants := map[[2]string]float64{{"on-main", "main"}: 4.5, {"on-main", "main-hover"}: 4.5}
			for _, ground := range []string{"card", "paper", "tile", "news-paper"} {
				for _, ink := range []string{"link", "ink", "soft"} {
					wants[[2]string{ink, ground}] = 4.5
				}
				wants[[2]string{"main-edge", ground}], wants[[2]string{"edge", ground}] = 3, 3
			}
			for pair, want := range wants {
				if got := contrast(values[pair[0]], values[pair[1]]); got < want {
					t.Errorf("%s, scheme %d: %s on %s has a contrast of %.2f", text, scheme, pair[0], pair[1], got)
				}
			}
		}
	})
}

// The link of a color has its hue, so that it is still the brand's.
func TestLinkKeepsTheHue(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`--link: (#[0-9a-f]{6});`)
	for _, text := range []string{"#ff6200", "#fc4c02", "#e60000", "#ffd500", "#5b21b6", "#00a1de"} {
		color, err := ParseColor(text)
		if err != nil {
			t.Fatal(err)
		}
		_, _, want := rgb(text).OkLch()
		for _, found := range link.FindAllStringSubmatch(color.CSS, -1) {
			if _, chroma, hue := rgb(found[1]).OkLch(); hue < want-4 || hue > want+4 || chroma < 0.08 {
				t.Errorf("%s has the link %s, of hue %.0f and chroma %.2f instead of hue %.0f", text, found[1], hue, chroma, want)
			}
		}
	}
}

func TestNoColor(t *testing.T) {
	t.Parallel()
	if css := (Color{}).CSS; css != "" {
		t.Errorf("no color has the style sheet %q", css)
	}
}
