package brand

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/lucasb-eyer/go-colorful"
)

// Color is an operator's color, any at all. The zero value means that there is none.
type Color struct{ main, onMain, css string }

// Contrasts that text and the edge of a button need (WCAG 2.2, 1.4.3 and 1.4.11).
const (
	readable = 4.5
	distinct = 3
)

var white, black = rgb("#ffffff"), rgb("#000000")

// scheme has the pages' own neutral colors in the light or the dark scheme.
type scheme struct {
	grounds, others [][2]string // name and color; links lie on the grounds
	toward          float64     // how the lightness of a color changes until it is readable as a link
}

var (
	light = scheme{
		grounds: [][2]string{{"card", "#ffffff"}, {"paper", "#edf1ee"}, {"tile", "#e4efe8"}, {"news-paper", "#eef6f1"}},
		others:  [][2]string{{"ink", "#14231c"}, {"soft", "#485a51"}, {"hair", "#d3ddd6"}, {"edge", "#6d8076"}, {"lane", "#d8e2db"}},
		toward:  -0.01,
	}
	dark = scheme{
		grounds: [][2]string{{"card", "#151e1a"}, {"paper", "#0e1512"}, {"tile", "#1e2f27"}, {"news-paper", "#15291f"}},
		others:  [][2]string{{"ink", "#e6eee9"}, {"soft", "#aebcb4"}, {"hair", "#2b3932"}, {"edge", "#81958b"}, {"lane", "#1b2822"}},
		toward:  0.01,
	}
)

// ParseColor parses a color such as #ff6200. Buttons have exactly this color, with black or white text. Links have its hue, and are as
// dark or as light as they must be to be readable. Grounds and drawings have a trace of its hue.
func ParseColor(text string) (Color, error) {
	given, err := colorful.Hex(text)
	if err != nil || len(text) != len("#rrggbb") {
		return Color{}, errors.New("is not a color")
	}
	onMain, away := white, black
	if contrast(given, black) > contrast(given, white) {
		onMain, away = black, white
	}
	hover := given.BlendRgb(onMain, 0.12)
	if contrast(hover, onMain) < readable+0.1 { // whatever rounding does
		hover = given.BlendRgb(away, 0.12)
	}
	c := Color{main: given.Hex(), onMain: onMain.Hex()}
	buttons := fmt.Sprintf("--main: %s;\n--spark: %[1]s;\n--main-hover: %s;\n--on-main: %s;\n", c.main, hover.Hex(), c.onMain)
	c.css = ":root {\n" + buttons + light.css(given) + "}\n\n@media (prefers-color-scheme: dark) {\n:root {\n" + dark.css(given) + "}\n}\n"
	return c, nil
}

// Hex returns the color as it was given, in lower case, or an empty string without a color.
func (c Color) Hex() string { return c.main }

// OnHex returns the color of text on the color, or an empty string without a color.
func (c Color) OnHex() string { return c.onMain }

// CSS returns the style sheet that replaces the pages' own colors, or an empty string without a color.
func (c Color) CSS() string { return c.css }

// css returns the variables that a color has in one scheme.
func (s scheme) css(given colorful.Color) string {
	var css strings.Builder
	set := func(name string, c colorful.Color) { fmt.Fprintf(&css, "--%s: %s;\n", name, c.Hex()) }
	l, chroma, hue := given.OkLch()
	follow := func(own [2]string) colorful.Color {
		l, most, _ := rgb(own[1]).OkLch()
		c := oklch(l, min(chroma, most), hue)
		set(own[0], c)
		return c
	}
	var grounds []colorful.Color
	for _, own := range s.grounds {
		grounds = append(grounds, follow(own))
	}
	for _, own := range s.others {
		follow(own)
	}
	link := given
	for ; least(link, grounds) < readable; l += s.toward {
		link = oklch(l, chroma, hue)
	}
	set("link", link)
	// A button that does not stand out from its ground has an edge.
	edge := given
	if least(edge, grounds) < distinct {
		edge = link
	}
	set("main-edge", edge)
	return css.String()
}

// oklch returns a color that six digits express exactly, as browsers will read it. Its chroma is the most, up to c, that screens show.
func oklch(l, c, hue float64) colorful.Color {
	color := colorful.OkLch(l, c, hue)
	for ; c > 0 && !color.IsValid(); c -= 0.005 {
		color = colorful.OkLch(l, c, hue)
	}
	return rgb(color.Clamped().Hex())
}

// least returns the smallest contrast of a color to one of the grounds.
func least(c colorful.Color, grounds []colorful.Color) float64 {
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
