package brand

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
)

const (
	svgSpace   = "http://www.w3.org/2000/svg"
	xlinkSpace = "http://www.w3.org/1999/xlink"
)

// maxUses and maxShown keep small what a drawing can grow to, since a part that is shown twice may show others twice. A file without
// references has a third of maxShown at most.
const (
	maxUses  = 32
	maxShown = 50_000
)

var (
	// elements of SVG that draw or describe what is drawn. Those that draw are true.
	elements = map[string]bool{
		"svg": false, "g": false, "defs": false, "symbol": false, "title": false, "desc": false, "style": false,
		"linearGradient": false, "radialGradient": false, "stop": false, "clipPath": false, "mask": false,
		"path": true, "rect": true, "circle": true, "ellipse": true, "line": true, "polyline": true, "polygon": true,
		"text": true, "tspan": true, "use": true,
	}

	attribute = regexp.MustCompile(`^(id|class|style|d|x|y|x1|y1|x2|y2|cx|cy|fx|fy|r|rx|ry|dx|dy|width|height|points|offset|` +
		`viewBox|preserveAspectRatio|transform|gradientTransform|gradientUnits|spreadMethod|clipPathUnits|maskUnits|maskContentUnits|` +
		`pathLength|text-anchor|letter-spacing|opacity|color|display|visibility|overflow|version|` +
		`(fill|stroke|stop|clip|mask|font|paint|vector|shape)(-[a-z]+)*)$`)

	// reference is what a style or a paint may name: a part of the same file.
	reference = regexp.MustCompile(`url\(\s*["']?#([\w.-]+)["']?\s*\)`)
	painted   = regexp.MustCompile(`(fill|stroke)\s*:\s*url\(\s*["']?#[\w.-]+["']?\s*\)`)
	number    = regexp.MustCompile(`[0-9]+`)
	harmful   = regexp.MustCompile(`(?i)url\(|@|\\|expression|javascript:|image|src\(`)
)

// readDrawing writes again what it knows of an SVG file: shapes, paints and text. Whatever is within an element that it does
// not know is left out, and a style that is not harmless as a whole.
func readDrawing(file []byte) ([]byte, error) {
	decoder := xml.NewDecoder(bytes.NewReader(file))
	d := drawing{parts: map[string]*part{}}
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, errDrawing
		}
		switch token := token.(type) {
		case xml.StartElement:
			if err := d.start(token); err != nil {
				return nil, err
			}
		case xml.EndElement:
			d.end(token)
		case xml.CharData:
			d.text(token)
		}
	}
	switch {
	case d.uses > maxUses:
		return nil, tooMuch("uses", "has more than %d elements named use", maxUses)
	case d.root != nil && d.root.shown() > maxShown:
		return nil, tooMuch("shown", "shows more than %d shapes and points where all that it refers to is drawn", maxShown)
	case !d.drawn:
		return nil, errNothing
	}
	return d.out.Bytes(), nil
}

// drawing is what was read of a file.
type drawing struct {
	out    bytes.Buffer
	open   []*part // nil: left out
	hidden int     // how many elements deep within one that is left out
	style  *bytes.Buffer
	drawn  bool
	uses   int
	root   *part
	parts  map[string]*part // by id
}

// part is an element with what it shows: its own shape, the parts within, and those that it refers to by id.
type part struct {
	drawing *drawing
	own     int // 1, and about the points of its shape
	within  []*part
	refers  []string
	sum     int
	summed  bool
}

// shown is how much is drawn to show the part, as far as maxShown. A part that shows itself is not drawn.
func (p *part) shown() int {
	if p.summed {
		return p.sum
	}
	p.summed = true // meanwhile sum is 0
	sum := p.own
	for _, inner := range p.within {
		sum = min(sum+inner.shown(), maxShown+1)
	}
	for _, id := range p.refers {
		if other := p.drawing.parts[id]; other != nil {
			sum = min(sum+other.shown(), maxShown+1)
		}
	}
	p.sum = sum
	return sum
}

func (d *drawing) start(element xml.StartElement) error {
	draws, known := elements[element.Name.Local]
	known = known && element.Name.Space == svgSpace && d.style == nil // a style has no elements
	if len(d.open) == 0 && (!known || element.Name.Local != "svg") {
		return errDrawing
	}
	if d.hidden > 0 || !known {
		d.hidden++
		d.open = append(d.open, nil)
		return nil
	}
	mine := &part{drawing: d, own: 1}
	if n := len(d.open); n == 0 {
		d.root = mine
	} else {
		d.open[n-1].within = append(d.open[n-1].within, mine)
	}
	d.open = append(d.open, mine)
	d.drawn = d.drawn || draws
	switch element.Name.Local {
	case "use":
		d.uses++
	case "style":
		d.style = new(bytes.Buffer)
	}
	d.writeStart(element, mine)
	return nil
}

// writeStart writes the attributes that are known, and notes what they show.
func (d *drawing) writeStart(element xml.StartElement, mine *part) {
	d.out.WriteString("<" + element.Name.Local)
	if len(d.open) == 1 {
		d.out.WriteString(` xmlns="` + svgSpace + `"`)
	}
	for _, a := range element.Attr {
		own := a.Name.Space == "" && attribute.MatchString(a.Name.Local) && harmless(a.Value)
		link := a.Name.Local == "href" && (a.Name.Space == "" || a.Name.Space == xlinkSpace) && strings.HasPrefix(a.Value, "#")
		if !own && !link {
			continue
		}
		switch {
		case link:
			mine.refers = append(mine.refers, a.Value[1:])
		case a.Name.Local == "id":
			d.parts[a.Value] = mine
		case a.Name.Local == "d", a.Name.Local == "points":
			mine.own += len(number.FindAllStringIndex(a.Value, -1)) / 2
		}
		for _, named := range reference.FindAllStringSubmatch(a.Value, -1) {
			mine.refers = append(mine.refers, named[1])
		}
		d.out.WriteString(" " + a.Name.Local + `="`)
		_ = xml.EscapeText(&d.out, []byte(a.Value)) // a buffer takes all
		d.out.WriteByte('"')
	}
	d.out.WriteByte('>')
}

func (d *drawing) end(element xml.EndElement) {
	d.open = d.open[:len(d.open)-1]
	if d.hidden > 0 {
		d.hidden--
		return
	}
	if d.style != nil {
		// All of it at once, because a comment between two parts of a word goes. What it paints with is small; what it masks and clips with
		// would be drawn for each element that it chooses.
		if text := d.style.String(); !harmful.MatchString(painted.ReplaceAllString(text, "")) {
			_ = xml.EscapeText(&d.out, []byte(text))
		}
		d.style = nil
	}
	d.out.WriteString("</" + element.Name.Local + ">")
}

func (d *drawing) text(text xml.CharData) {
	switch {
	case d.style != nil:
		d.style.Write(text)
	case d.hidden == 0 && len(d.open) > 0:
		_ = xml.EscapeText(&d.out, text) // a buffer takes all
	}
}

// harmless says whether a style or a value loads nothing.
func harmless(value string) bool { return !harmful.MatchString(reference.ReplaceAllString(value, "")) }
