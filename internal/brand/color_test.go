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
	for text, want := range map[string]string{
		"green": "is not a color", "#fff": "is not a color", "#12345g": "is not a color", "0b5a41": "is not a color",
		"#ffcc00": "is too pale to be read on a light page (contrast 1.3, of 4.5); the nearest that can be is #",
		"#ffffff": "is too pale",
	} {
		if _, err := ParseColor(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// The color that the error names is accepted.
func TestNearestColorIsAccepted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		_, err := ParseColor(drawColor(t))
		if err == nil {
			return
		}
		nearest := err.Error()[strings.LastIndexByte(err.Error(), '#'):]
		if _, err := ParseColor(nearest); err != nil {
			t.Fatalf("the nearest color %s: %v", nearest, err)
		}
	})
}

// TestColorsCanBeRead measures the contrast of each pair of colors in the style sheet that pages use together.
func TestColorsCanBeRead(t *testing.T) {
	t.Parallel()
	variable := regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{6});`)
	rapid.Check(t, func(t *rapid.T) {
		color, err := ParseColor(drawColor(t))
		if err != nil {
			return
		}
		light, dark, _ := strings.Cut(color.CSS(), "@media")
		for i, scheme := range []struct{ css, card, paper string }{{light, "#ffffff", "#edf1ee"}, {dark, "#151e1a", "#0e1512"}} {
			values := map[string]colorful.Color{"card": rgb(scheme.card), "paper": rgb(scheme.paper)}
			for _, found := range variable.FindAllStringSubmatch(scheme.css, -1) {
				values[found[1]] = rgb(found[2])
			}
			for _, pair := range [][2]string{
				{"link", "card"}, {"link", "paper"}, {"link", "tile"}, {"link", "news-paper"},
				{"on-main", "main"}, {"on-main", "main-hover"}, {"main", "card"},
			} {
				if got := contrast(values[pair[0]], values[pair[1]]); got < 4.5 {
					t.Errorf("%s, scheme %d: %s on %s has a contrast of %.2f", color.Hex(), i, pair[0], pair[1], got)
				}
			}
		}
	})
}

func drawColor(t *rapid.T) string {
	return fmt.Sprintf("#%06x", rapid.IntRange(0, 0xffffff).Draw(t, "color"))
}

func TestNoColor(t *testing.T) {
	t.Parallel()
	if css := (Color{}).CSS(); css != "" {
		t.Errorf("no color has the style sheet %q", css)
	}
}
