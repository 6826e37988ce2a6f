package brand

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math"
	"sync"
)

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
