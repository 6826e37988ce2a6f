//go:build check

package pages

import (
	"strings"
	"testing"

	"connect-svc/internal/brand"
	"connect-svc/internal/locale"
)

// palette has the colors of known brands, and those that are difficult: bright, pale, dark, gray, and between black and white.
var palette = []string{
	"#ff6200", "#fc4c02", "#e60000", "#ffd500", "#ffff00", "#fefefe", "#ffffff", "#010101", "#000000", "#808080", "#777777", "#c0c0c0",
	"#00a651", "#00ff00", "#0b5a41", "#0066cc", "#00bfff", "#000080", "#5b21b6", "#ff69b4",
}

// TestPalettes measures all pages and emails in English, with each color: at 320 px, in light and in dark, under a name of 40 letters
// that cannot be broken, without a logo. One color is measured as `brand preview --check` does it, in everything, with a wide logo. The
// other sizes and languages lay out the same boxes, whatever their color.
func TestPalettes(t *testing.T) {
	t.Parallel()
	english := everything([]string{"en"})
	english.Widths, english.Scales = []int{320}, []int{100, 200}
	for i, text := range palette {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			color, err := brand.ParseColor(text)
			if err != nil {
				t.Fatal(err)
			}
			of, p := brand.Brand{Name: strings.Repeat("W", 40), Color: color}, english
			if i == 0 {
				of.Logo = logoOf(t, strings.NewReplacer("40 20", "400 20", "h40", "h400").Replace(lightDrawing))
				p = everything(locale.Default().Tags())
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
