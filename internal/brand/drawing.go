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

// maxUses keeps small what a drawing can grow to: each of them may show one that shows others.
const maxUses = 32

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
	reference = regexp.MustCompile(`url\(\s*["']?#[\w.-]+["']?\s*\)`)
	harmful   = regexp.MustCompile(`(?i)url\(|@|\\|expression|javascript:|image|src\(`)
)

// readDrawing writes again what it knows of an SVG file: shapes, paints and text. Whatever is within an element that it does
// not know is left out.
func readDrawing(file []byte) ([]byte, error) {
	decoder := xml.NewDecoder(bytes.NewReader(file))
	var out bytes.Buffer
	var open []string
	drawn, hidden := false, 0 // hidden: how many elements deep within one that is left out
	uses := 0
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
			draws, known := elements[token.Name.Local]
			known = known && token.Name.Space == svgSpace
			if len(open) == 0 && (!known || token.Name.Local != "svg") {
				return nil, errDrawing
			}
			open = append(open, token.Name.Local)
			if hidden > 0 || !known {
				hidden++
				continue
			}
			drawn = drawn || draws
			if token.Name.Local == "use" {
				uses++
			}
			writeStart(&out, token, len(open) == 1)
		case xml.EndElement:
			open = open[:len(open)-1]
			if hidden > 0 {
				hidden--
				continue
			}
			out.WriteString("</" + token.Name.Local + ">")
		case xml.CharData:
			if hidden == 0 && len(open) > 0 && (open[len(open)-1] != "style" || harmless(string(token))) {
				_ = xml.EscapeText(&out, token) // a buffer takes all
			}
		}
	}
	if uses > maxUses {
		return nil, tooMuch("uses", "has more than %d elements named use", maxUses)
	}
	if !drawn {
		return nil, errNothing
	}
	return out.Bytes(), nil
}

func writeStart(out *bytes.Buffer, element xml.StartElement, root bool) {
	out.WriteString("<" + element.Name.Local)
	if root {
		out.WriteString(` xmlns="` + svgSpace + `"`)
	}
	for _, a := range element.Attr {
		own := a.Name.Space == "" && attribute.MatchString(a.Name.Local) && harmless(a.Value)
		link := a.Name.Local == "href" && (a.Name.Space == "" || a.Name.Space == xlinkSpace) && strings.HasPrefix(a.Value, "#")
		if own || link {
			out.WriteString(" " + a.Name.Local + `="`)
			_ = xml.EscapeText(out, []byte(a.Value)) // a buffer takes all
			out.WriteByte('"')
		}
	}
	out.WriteByte('>')
}

// harmless says whether a style or a value loads nothing.
func harmless(value string) bool { return !harmful.MatchString(reference.ReplaceAllString(value, "")) }
