package brand

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/lucasb-eyer/go-colorful"
)

// MaxLogo is the maximum size of a logo in bytes, both as a file and as it is served.
const MaxLogo = 64 << 10

// maxSide is the side of the largest square picture, in pixels. Other shapes may have as many pixels. Decoding and encoding them takes
// less than a tenth of a second of the operator's request.
const maxSide = 1024

// Logo is a picture that is safe to serve. The zero value means that there is none.
type Logo struct {
	Name    string // of the served file: a hash of the content, with .svg or .png
	Content []byte
}

// MediaType returns the media type that the name stands for.
func (l Logo) MediaType() string {
	if path.Ext(l.Name) == ".svg" {
		return "image/svg+xml"
	}
	return "image/png"
}

// viewBox matches the size in the first tag of a drawing.
var viewBox = regexp.MustCompile(`^<svg[^>]* viewBox="[^ "]+[ ,]+[^ "]+[ ,]+([\d.]+)[ ,]+([\d.]+)"`)

// IsSquare reports whether a logo fits where there is only a square place for it.
func (l Logo) IsSquare() bool {
	if l.MediaType() == "image/png" {
		size, err := png.DecodeConfig(bytes.NewReader(l.Content))
		return err == nil && size.Width == size.Height
	}
	sides := viewBox.FindSubmatch(l.Content)
	return sides != nil && bytes.Equal(sides[1], sides[2])
}

// Each text completes a sentence that begins with the file's name.
var (
	errPNG     = errors.New("is not a PNG file that can be read")
	errDrawing = errors.New("is neither a PNG file nor an SVG file that can be read")
	errComplex = errors.New("is too complex a drawing: simplify it, or use a PNG file")
	errNothing = errors.New("draws nothing that can be shown: no path, shape or text")
)

// ReadLogo makes a logo from an SVG or PNG file of at most 64 KiB and as many pixels as 1024 x 1024. It leaves out metadata, scripts,
// links and everything else that is invisible. An error completes a sentence that begins with the file's name.
func ReadLogo(file []byte) (Logo, error) {
	if len(file) > MaxLogo {
		return Logo{}, fmt.Errorf("is larger than %d KiB", MaxLogo>>10)
	}
	extension, read := ".svg", readDrawing
	if bytes.HasPrefix(file, []byte("\x89PNG\r\n\x1a\n")) {
		extension, read = ".png", readPicture
	}
	content, err := read(file)
	if err != nil {
		return Logo{}, err
	}
	if len(content) > MaxLogo {
		return Logo{}, fmt.Errorf("is larger than %d KiB when it is written again", MaxLogo>>10)
	}
	return Logo{fileName("logo-", content, extension), content}, nil
}

func readPicture(file []byte) ([]byte, error) {
	size, err := png.DecodeConfig(bytes.NewReader(file))
	if err != nil {
		return nil, errPNG
	}
	if size.Width > maxSide*maxSide/size.Height {
		return nil, fmt.Errorf("is %d x %d pixels large; %d x %d is the most", size.Width, size.Height, maxSide, maxSide)
	}
	picture, err := png.Decode(bytes.NewReader(file))
	if err != nil {
		return nil, errPNG
	}
	var written bytes.Buffer
	if err := png.Encode(&written, picture); err != nil {
		return nil, errPNG // a picture that was read can be written
	}
	return written.Bytes(), nil
}

// Color is an operator's color, any at all. The zero value means that there is none: its texts are empty.
type Color struct {
	Hex   string // as it was given, in lower case
	OnHex string // of text on the color
	CSS   string // a style sheet that replaces the pages' own colors
}

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
	c := Color{Hex: given.Hex(), OnHex: onMain.Hex()}
	buttons := fmt.Sprintf("--main: %s;\n--spark: %[1]s;\n--main-hover: %s;\n--on-main: %s;\n", c.Hex, hover.Hex(), c.OnHex)
	c.CSS = ":root {\n" + buttons + light.css(given) + "}\n\n@media (prefers-color-scheme: dark) {\n:root {\n" + dark.css(given) + "}\n}\n"
	return c, nil
}

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
	_, light, _ := a.Xyz()
	_, two, _ := b.Xyz()
	return (max(light, two) + 0.05) / (min(light, two) + 0.05)
}

func rgb(text string) colorful.Color {
	c, err := colorful.Hex(text)
	if err != nil {
		panic(err)
	}
	return c
}

// mark is the program's own mark, which pages have as a drawing, in a picture for emails.
var mark = sync.OnceValue(func() Logo {
	const side = 80 // pixels; the drawing has 32 units
	img := image.NewNRGBA(image.Rect(0, 0, side, side))
	covers := func(distance float64) float64 { return min(1, max(0, .5-distance*side/32)) }
	for i := range side * side {
		x, y := (float64(i%side)+.5)*32/side, math.Abs((float64(i/side)+.5)*32/side-16)
		lane := func(radius float64) float64 { // a bend about (14, 16), 2.5 wide, whose ends lead to x = 20
			if x < 14 {
				return math.Abs(math.Hypot(x-14, y)-radius) - 1.25
			}
			return math.Hypot(max(0, x-20), y-radius) - 1.25
		}
		tile := math.Hypot(max(0, math.Abs(x-16)-8), max(0, y-8)) - 8
		dot := math.Hypot(x-23.5, y) - 2.75
		paint := rgb("#0b5a41").BlendRgb(white, covers(min(lane(7.5), lane(2.5)))).BlendRgb(rgb("#f2b134"), covers(dot))
		r, g, b := paint.Clamped().RGB255()
		img.SetNRGBA(i%side, i/side, color.NRGBA{r, g, b, uint8(255*covers(tile) + .5)})
	}
	var file bytes.Buffer
	_ = png.Encode(&file, img) // a buffer takes all
	return Logo{fileName("logo-", file.Bytes(), ".png"), file.Bytes()}
})
