package brand

import (
	"errors"
	"fmt"
	"math"

	"github.com/lucasb-eyer/go-colorful"
)

// Color is an operator's color. The zero value means that there is none.
type Color struct {
	light, dark palette
	set         bool
}

// palette holds the colors that pages derive from a color, in the light or the dark scheme.
type palette struct{ main, hover, onMain, tile, lane, news colorful.Color }

// readable is the contrast that text and icons need (WCAG 2.2, 1.4.3).
const readable = 4.5

// The backgrounds on which pages use a color: the card that holds the text, and the paper around it.
var (
	lightCard, lightPaper = rgb("#ffffff"), rgb("#edf1ee")
	darkCard, darkPaper   = rgb("#151e1a"), rgb("#0e1512")
	white, black          = rgb("#ffffff"), rgb("#0b0f0d")
)

// ParseColor parses a color such as #0b5a41. Text in it must be readable on a light page; otherwise the error names the nearest
// readable color. Dark pages use a lighter tone if they need to.
func ParseColor(text string) (Color, error) {
	given, err := colorful.Hex(text)
	if err != nil || len(text) != len("#rrggbb") {
		return Color{}, errors.New("is not a color")
	}
	if fits := toward(given, black, lightCard, lightPaper); fits.Hex() != given.Hex() {
		return Color{}, fmt.Errorf("is too pale to be read on a light page (contrast %.1f, of %.1f); the nearest that can be is %s",
			least(given, lightCard, lightPaper), readable, fits.Hex())
	}
	return Color{
		light: paletteOf(given, lightCard, lightPaper, black),
		dark:  paletteOf(toward(given, white, darkCard, darkPaper), darkCard, darkPaper, white),
		set:   true,
	}, nil
}

// Hex returns the color as it was given, in lower case, or an empty string without a color.
func (c Color) Hex() string {
	if !c.set {
		return ""
	}
	return c.light.main.Hex()
}

// CSS returns the style sheet that replaces the pages' own color, or an empty string without a color.
func (c Color) CSS() string {
	if !c.set {
		return ""
	}
	return ":root {\n" + c.light.css() + "}\n\n@media (prefers-color-scheme: dark) {\n:root {\n" + c.dark.css() + "}\n}\n"
}

func (p palette) css() string {
	return fmt.Sprintf("--main: %[1]s;\n--link: %[1]s;\n--main-hover: %[2]s;\n--on-main: %[3]s;\n--tile: %[4]s;\n--lane: %[5]s;\n--news-paper: %[6]s;\n",
		p.main.Hex(), p.hover.Hex(), p.onMain.Hex(), p.tile.Hex(), p.lane.Hex(), p.news.Hex())
}

// paletteOf derives a palette from a color that is readable on both backgrounds. The tints of the backgrounds stay faint enough for the
// color to be readable on them.
func paletteOf(main, card, paper, away colorful.Color) palette {
	tint := func(ground colorful.Color, share float64) colorful.Color {
		for ; share > 0.01; share *= 0.75 {
			if tinted := mix(ground, main, share); contrast(main, tinted) >= readable {
				return tinted
			}
		}
		return ground
	}
	p := palette{main: main, onMain: white, tile: tint(card, 0.12), lane: tint(paper, 0.1), news: tint(card, 0.06)}
	if contrast(main, black) > contrast(main, white) {
		p.onMain = black
	}
	// Away from the color of the button's text, so that the text stays readable.
	if p.hover = mix(main, away, 0.2); contrast(p.hover, p.onMain) < readable {
		p.hover = main
	}
	return p
}

// toward mixes a color with another one until it is readable on all backgrounds.
func toward(c, other colorful.Color, grounds ...colorful.Color) colorful.Color {
	for share := 0.0; share < 1; share += 0.01 {
		if mixed := mix(c, other, share); least(mixed, grounds...) >= readable {
			return mixed
		}
	}
	return other
}

// mix returns a color that six digits express exactly, as browsers will read it.
func mix(a, b colorful.Color, share float64) colorful.Color {
	return rgb(a.BlendRgb(b, share).Clamped().Hex())
}

func least(c colorful.Color, grounds ...colorful.Color) float64 {
	smallest := math.Inf(1)
	for _, ground := range grounds {
		smallest = min(smallest, contrast(c, ground))
	}
	return smallest
}

// contrast returns the contrast ratio of WCAG 2.2, from 1 to 21.
func contrast(a, b colorful.Color) float64 {
	_, one, _ := a.Xyz()
	_, two, _ := b.Xyz()
	return (max(one, two) + 0.05) / (min(one, two) + 0.05)
}

func rgb(text string) colorful.Color {
	c, err := colorful.Hex(text)
	if err != nil {
		panic(err)
	}
	return c
}
