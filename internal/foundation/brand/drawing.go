package brand

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
)

const (
	svgSpace   = "http://www.w3.org/2000/svg"
	xlinkSpace = "http://www.w3.org/1999/xlink"
)

// maxShown limits how much a drawing shows, in bytes of its text. A part counts each time it is shown, because a part that is shown twice
// may show others twice. A reference costs referring in addition to what it shows, because a mask is a picture of its own.
const (
	maxShown  = 512 << 10
	referring = 512
)

// properties lists the accepted attributes and styles of shapes. Dashes are left out: a short path can have any number of them.
const properties = `fill(-opacity|-rule)?|stroke(-width|-linecap|-linejoin|-miterlimit|-opacity)?|stop-(color|opacity)|clip-(path|rule)|mask|mask-type|` +
	`font(-family|-size|-stretch|-style|-variant|-weight)?|text-anchor|letter-spacing|opacity|color|display|visibility|overflow|paint-order|` +
	`vector-effect|(shape|text)-rendering|isolation|mix-blend-mode`

var (
	// elements are the SVG elements that are kept. The value is true for those that draw.
	elements = map[string]bool{
		"svg": false, "g": false, "defs": false, "symbol": false, "title": false, "desc": false, "style": false,
		"linearGradient": false, "radialGradient": false, "stop": false, "clipPath": false, "mask": false,
		"path": true, "rect": true, "circle": true, "ellipse": true, "line": true, "polyline": true, "polygon": true,
		"text": true, "tspan": true, "use": true,
	}

	attribute = regexp.MustCompile(`^(id|class|style|d|x|y|x1|y1|x2|y2|cx|cy|fx|fy|r|rx|ry|dx|dy|width|height|points|offset|` +
		`viewBox|preserveAspectRatio|transform|gradientTransform|gradientUnits|spreadMethod|clipPathUnits|maskUnits|maskContentUnits|` +
		`pathLength|version|` + properties + `)$`)

	// partID names a part, and link refers to it. Browsers would also resolve escaped names, so links with escapes are left out.
	partID = regexp.MustCompile(`^[\w.-]+$`)
	link   = regexp.MustCompile(`^#[\w.-]+$`)

	// reference matches the only accepted kind of URL in a style or a paint: a part of the same file.
	reference = regexp.MustCompile(`url\(\s*["']?#([\w.-]+)["']?\s*\)`)
	harmful   = regexp.MustCompile(`(?i)url\(|@|\\|expression|javascript:|image|src\(`)
)

// readDrawing copies the known elements of an SVG file: shapes, paints and text. It leaves out unknown elements with their content.
func readDrawing(file []byte) ([]byte, error) {
	decoder := xml.NewDecoder(bytes.NewReader(file))
	d := drawing{parts: map[string]*part{}, sums: map[*part]int{}}
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
			if len(d.open) == 0 && (d.root != nil || token.Name != (xml.Name{Space: svgSpace, Local: "svg"})) { // a file has one root
				return nil, errDrawing
			}
			if !d.start(token) && decoder.Skip() != nil {
				return nil, errDrawing
			}
		case xml.EndElement:
			d.open = d.open[:len(d.open)-1]
			if d.style != nil {
				_ = xml.EscapeText(&d.out, []byte(d.sheet(d.style.String()))) // as a whole, because removing a comment joins the text around it
				d.style = nil
			}
			d.out.WriteString("</" + token.Name.Local + ">")
		case xml.CharData:
			if d.style != nil {
				d.style.Write(token)
			} else if last := len(d.open) - 1; last >= 0 {
				before := d.out.Len()
				_ = xml.EscapeText(&d.out, token) // a buffer takes all
				d.open[last].own += d.out.Len() - before
			}
		}
	}
	if !d.drawn {
		return nil, errNothing
	}
	heaviest := 0
	for _, id := range d.paints {
		heaviest = max(heaviest, d.sum(d.parts[id]))
	}
	d.each = d.rules + 2*heaviest // a style may paint all elements, each with two of its paints
	clear(d.sums)
	if d.sum(d.root) > maxShown {
		return nil, errComplex
	}
	return d.out.Bytes(), nil
}

// drawing is the state of reading a file.
type drawing struct {
	out    bytes.Buffer
	open   []*part       // the open elements
	style  *bytes.Buffer // the text of the open style, if any
	drawn  bool
	root   *part
	parts  map[string]*part // by id
	rules  int              // selectors of all styles
	paints []string         // parts that styles paint with
	each   int              // the cost of the styles for each element
	sums   map[*part]int
}

// part is an element. It shows its own text, the parts within, and the parts that it refers to by id.
type part struct {
	own    int // bytes
	within []*part
	refers []string
}

// sum returns how much is drawn to show a part. A part that shows itself exceeds maxShown.
func (d *drawing) sum(p *part) int {
	if p == nil {
		return 0
	}
	if sum, ok := d.sums[p]; ok {
		return sum
	}
	d.sums[p] = maxShown + 1 // until it is known
	sum := p.own + d.each
	for _, inner := range p.within {
		sum = min(sum+d.sum(inner), maxShown+1)
	}
	for _, id := range p.refers {
		sum = min(sum+referring+d.sum(d.parts[id]), maxShown+1)
	}
	d.sums[p] = sum
	return sum
}

// start opens an element, and reports whether it is known.
func (d *drawing) start(element xml.StartElement) bool {
	draws, known := elements[element.Name.Local]
	if d.style != nil {
		d.style.WriteByte('@') // a style has no elements: this one is not harmless
		return false
	}
	if !known || element.Name.Space != svgSpace {
		return false
	}
	mine := &part{}
	if n := len(d.open); n == 0 {
		d.root = mine
	} else {
		d.open[n-1].within = append(d.open[n-1].within, mine)
	}
	d.open = append(d.open, mine)
	d.drawn = d.drawn || draws
	if element.Name.Local == "style" {
		d.style = new(bytes.Buffer)
	}
	before := d.out.Len()
	d.writeStart(element, mine)
	mine.own += d.out.Len() - before
	return true
}

// writeStart writes the known attributes, and records their references.
func (d *drawing) writeStart(element xml.StartElement, mine *part) {
	d.out.WriteString("<" + element.Name.Local)
	if len(d.open) == 1 {
		d.out.WriteString(` xmlns="` + svgSpace + `"`)
	}
	written := map[string]bool{}
	for _, a := range element.Attr {
		name, value := a.Name.Local, a.Value
		if written[name] {
			continue
		}
		switch {
		case name == "href" && (a.Name.Space == "" || a.Name.Space == xlinkSpace) && link.MatchString(value):
			mine.refers = append(mine.refers, value[1:])
		case a.Name.Space != "" || !attribute.MatchString(name) || !harmless(value):
			continue
		case name == "id":
			if !partID.MatchString(value) || d.parts[value] != nil {
				continue // of two parts with an id, browsers show the first
			}
			d.parts[value] = mine
		case name == "style":
			value = declarations(value)
		}
		written[name] = true
		for _, named := range reference.FindAllStringSubmatch(value, -1) {
			mine.refers = append(mine.refers, named[1])
		}
		d.out.WriteString(" " + name + `="`)
		_ = xml.EscapeText(&d.out, []byte(value)) // a buffer takes all
		d.out.WriteByte('"')
	}
	d.out.WriteByte('>')
}
