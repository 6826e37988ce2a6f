//go:build check

package pages

import (
	"strings"
	"testing"

	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/locale"
)

// palette has the colors of known brands, and those that are difficult: bright, pale, dark, gray, and between black and white.
var palette = []string{
	"#ff6200", "#fc4c02", "#e60000", "#ffd500", "#ffff00", "#fefefe", "#ffffff", "#010101", "#000000", "#808080", "#777777", "#c0c0c0",
	"#00a651", "#00ff00", "#0b5a41", "#0066cc", "#00bfff", "#000080", "#5b21b6", "#ff69b4",
}

// TestPalettes measures all pages and emails in English, with each color, in light and in dark, at 320 px. Every brand has a name of 40
// letters that cannot be broken, and no logo: the second is measured in all sizes, too. The first has a wide logo, and is measured as
// `brand preview --check` does it, in every size and language. Those lay out the same boxes, whatever the color.
func TestPalettes(t *testing.T) {
	t.Parallel()
	for i, text := range palette {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			color, err := brand.ParseColor(text)
			if err != nil {
				t.Fatal(err)
			}
			of, p := brand.Brand{Name: strings.Repeat("W", 40), Color: color}, everything([]string{"en"})
			switch i {
			case 0:
				of.Logo = logoOf(t, strings.NewReplacer("40 20", "400 20", "h40", "h400").Replace(lightDrawing))
				p = everything(locale.Default().Tags())
			case 1:
			default:
				p.Widths, p.Scales = []int{320}, []int{100}
			}
			problems, err := check(t.Context(), of, locale.Default(), p)
			if err != nil {
				t.Fatal(err)
			}
			for _, problem := range problems {
				t.Error(problem)
			}
		})
	}
}
