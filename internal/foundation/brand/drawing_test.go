package brand

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// seen is an element as a browser reads it.
type seen struct {
	name   string
	attrs  map[string]string
	within []*seen
	text   string
}

var (
	costly = regexp.MustCompile(`(dash[a-z]*|filter|marker[a-z-]*|pattern)\s*:`)
	anyURL = regexp.MustCompile(`(?i)url\(\s*["']?#([^"')\s]*)`)
)

// drawnBy counts what a browser draws of a drawing, as far as most: elements, what their attributes and texts have in bytes, and the
// selectors of its styles for each element. The first part with an id is the one that it refers to, and addresses may be
// escaped. A part within itself is drawn once.
func drawnBy(t *testing.T, file []byte, most int) int {
	t.Helper()
	root := read(t, file)
	ids, styles := map[string]*seen{}, ""
	var find func(*seen)
	find = func(s *seen) {
		if id, found := s.attrs["id"]; found && ids[id] == nil {
			ids[id] = s
		}
		if s.name == "style" {
			styles += s.text
		}
		for _, inner := range s.within {
			find(inner)
		}
	}
	find(root)
	rules := strings.Count(styles, "{") + strings.Count(styles, ",")
	target := func(reference string) *seen {
		id, err := url.PathUnescape(reference)
		if err != nil {
			id = reference
		}
		return ids[id]
	}
	heaviest := 0
	for _, named := range anyURL.FindAllStringSubmatch(styles, -1) {
		if paint := target(named[1]); paint != nil && strings.HasSuffix(paint.name, "Gradient") {
			heaviest = max(heaviest, len(paint.within))
		}
	}
	n, open := 0, map[*seen]bool{}
	var draw func(*seen)
	draw = func(s *seen) {
		if s == nil || open[s] || n > most {
			return
		}
		open[s] = true
		defer delete(open, s)
		n += 1 + rules + len(s.text)
		for name, value := range s.attrs {
			n += len(value)
			if name == "href" && strings.HasPrefix(value, "#") {
				draw(target(value[1:]))
			}
			for _, named := range anyURL.FindAllStringSubmatch(value, -1) {
				draw(target(named[1]))
			}
		}
		if elements[s.name] { // it may be painted by a style
			n += heaviest
		}
		for _, inner := range s.within {
			draw(inner)
		}
	}
	draw(root)
	return n
}

// read is the tree of a drawing, which has no attribute twice.
func read(t *testing.T, file []byte) *seen {
	t.Helper()
	decoder, open := xml.NewDecoder(bytes.NewReader(file)), []*seen{{}}
	for {
		token, err := decoder.Token()
		if err != nil {
			break
		}
		last := open[len(open)-1]
		switch token := token.(type) {
		case xml.StartElement:
			s := &seen{name: token.Name.Local, attrs: map[string]string{}}
			for _, a := range token.Attr {
				if _, twice := s.attrs[a.Name.Local]; twice {
					t.Fatalf("%s has %s twice, which no browser reads: %s", s.name, a.Name.Local, file)
				}
				s.attrs[a.Name.Local] = a.Value
			}
			last.within = append(last.within, s)
			open = append(open, s)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			last.text += string(token)
		}
	}
	if len(open[0].within) != 1 {
		t.Fatalf("not one drawing: %s", file)
	}
	return open[0].within[0]
}

// cheap holds a drawing that was accepted to the bound, by counting what a browser draws of it.
func cheap(t *testing.T, file []byte) {
	t.Helper()
	if n := drawnBy(t, file, maxShown); n > maxShown {
		t.Errorf("shows more than %d: %.300s", maxShown, file)
	}
	for _, s := range all(read(t, file)) {
		for name, value := range s.attrs {
			if costly.MatchString(name+":") || name == "style" && costly.MatchString(value) {
				t.Errorf("%s=%q is left of %.300s", name, value, file)
			}
		}
		if s.name == "style" && costly.MatchString(s.text) {
			t.Errorf("%s is left of %.300s", s.text, file)
		}
	}
}

func all(s *seen) []*seen {
	list := []*seen{s}
	for _, inner := range s.within {
		list = append(list, all(inner)...)
	}
	return list
}

// nested has ten parts, each of which refers nine times to the one before; name is the id of a part where it stands, and refer what
// refers to it.
func nested(refer string, name func(i int) string) string {
	var file strings.Builder
	for i := range 10 {
		inner := `<path d="M0 0h1"/>`
		if i > 0 {
			inner = strings.Repeat(fmt.Sprintf(refer, name(i-1)), 9)
		}
		fmt.Fprintf(&file, `<g id="p%d">%s</g>`, i, inner)
	}
	return file.String()
}

// hostileDrawings are that are small and would cost much. Those that are true are refused, and of the others what costs is left out.
func hostileDrawings() map[string]bool {
	plain := func(i int) string { return fmt.Sprint("p", i) }
	percent := func(i int) string { return fmt.Sprintf("%%70%d", i) }
	shapes := strings.Repeat(`<path class="a" d="M0 0h1"/>`, 1000)
	stops := strings.Repeat(`<stop offset=".5"/>`, 1000)
	again := nested(`<use href="#%s"/>`, plain)
	cyclic := func(refer string) string { // b is asked for while a is open, and shows a a hundred times
		a, b := fmt.Sprintf(refer, "a"), fmt.Sprintf(refer, "b")
		return `<g id="a"><text>` + strings.Repeat("x", 9000) + `</text>` + b + `</g><g id="b">` + strings.Repeat(a, 100) + `</g>` + b
	}
	empty := "" // with the same ids
	for i := range 10 {
		empty += fmt.Sprintf(`<g id="p%d"/>`, i)
	}
	drawings := map[string]bool{}
	for _, refer := range []string{
		`<use href="#%s"/>`, `<use x:href="#%s"/>`, `<path d="M0 0h1" mask="url(#%s)"/>`, `<path d="M0 0h1" clip-path='url("#%s")'/>`,
		`<path d="M0 0h1" style="mask: url( '#%s' )"/>`, `<path d="M0 0h1" fill="url(#%s)"/>`, `<linearGradient href="#%s"/>`,
	} {
		drawings[nested(refer, plain)] = true
		drawings[nested(refer, percent)] = false
		drawings[nested(refer, plain)+empty] = true
		drawings[cyclic(refer)] = true
	}
	for content, refused := range map[string]bool{
		`<g id="p9"/>` + again + `<use href="#p9"/>`:                                                                                         true,
		`<text id="t">` + strings.Repeat("x", 20_000) + `</text>` + strings.Repeat(`<use href="#t"/>`, 30):                                   true,
		`<g id="t" x="` + strings.Repeat("1 ", 20_000) + `"/>` + strings.Repeat(`<use href="#t"/>`, 30):                                      true,
		`<mask id="m"><path d="M0 0h9"/></mask>` + strings.Repeat(`<path d="M0 0h9" mask="url(#m)"/>`, 1500):                                 true,
		`<style>.a{fill:url(#g)}</style><linearGradient id="g">` + stops + `</linearGradient>` + shapes:                                      true,
		`<style>.a{fill:url(#p)}.a{stroke:url(#g)}</style><g id="p">` + shapes + `</g><linearGradient id="g">` + stops + `</linearGradient>`: true,
		`<style>` + strings.Repeat(`.a,path{fill:red}`, 1000) + `</style>` + shapes:                                                          true,
		`<path d="M0 0h9" stroke-dasharray=".0001"/>`:                                                                                        false,
		`<path d="M0 0h9" style="stroke-dasharray:.0001;filter:blur(99px)"/>`:                                                                false,
		`<path d="M0 0h9" style="fill:red;stroke-dashoffset:1;/**/stroke-dasharray:.0001"/>`:                                                 false,
		`<path d="M0 0h9" filter="url(#p)" marker-mid="url(#p)"/>`:                                                                           false,
		`<style>path{stroke-dasharray:.0001;filter:blur(99px);marker:none}</style><path d="M0 0h9"/>`:                                        false,
		`<style>.a{fill:red}.b{.c{stroke-dasharray:1}}/*{*/path{filter:none}</style><path d="M0 0h9"/>`:                                      false,
		`<path d="M0 0h9" id="a" id="b" x:href="#c" href="#d" fill="red" fill="blue"/>`:                                                      false,
	} {
		drawings[content] = refused
	}
	return drawings
}

func TestHostileDrawings(t *testing.T) {
	t.Parallel()
	for content, refused := range hostileDrawings() {
		file := []byte(`<svg xmlns="http://www.w3.org/2000/svg" xmlns:x="http://www.w3.org/1999/xlink">` + content + `</svg>`)
		if len(file) > MaxLogo {
			t.Fatalf("a file of %d bytes is none that is read: %.100s", len(file), file)
		}
		logo, err := ReadLogo(file)
		if (err != nil) != refused {
			t.Errorf("refused: %v: %.200s", err, file)
		}
		if err == nil {
			cheap(t, logo.Content)
		}
	}
}

// A second root would hide from the bound what the first one draws.
func TestDrawingHasOneRoot(t *testing.T) {
	t.Parallel()
	const one = `<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0h9"/></svg>`
	if _, err := ReadLogo([]byte(one)); err != nil {
		t.Error(err)
	}
	if logo, err := ReadLogo([]byte(one + one)); err == nil {
		t.Errorf("two roots are accepted: %s", logo.Content)
	}
}

// Files of drawing programs are accepted, and look as before.
func TestUsualDrawings(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		// A style sheet with classes and gradients.
		`<style type="text/css">.st0{fill:url(#SVGID_1_);}
	.st1,.st2{fill:#FFF;font-family:'Open Sans', "Arial";}</style><linearGradient id="SVGID_1_"><stop offset="0" style="stop-color:#F00"/></linearGradient>` +
			strings.Repeat(`<path class="st0" d="M12.5,3.4c0,0,1.2-3.4,5.6-7.8s3.4-5.6,7.8-9"/>`, 300): `.st1,.st2{fill:#FFF;font-family:'Open Sans', "Arial"}`,
		// Declarations in an attribute, of which some are unknown.
		`<path style="fill:#1a2b3c;fill-opacity:1;stroke:none;stroke-dasharray:none;-inkscape-stroke:none" d="M0 0h9"/>`: `style="fill:#1a2b3c;fill-opacity:1;stroke:none"`,
		// A clip path around all, and a mask with a type.
		`<g clip-path="url(#clip0_1_2)"><mask id="m" style="mask-type:luminance"><path fill="white" d="M0 0h9"/></mask><g mask="url(#m)"><path d="M0 0h9"/></g></g>` +
			`<defs><clipPath id="clip0_1_2"><path d="M0 0h9"/></clipPath></defs>`: `<g mask="url(#m)">`,
		// A part that is shown a hundred times.
		`<path id="dot" d="M0 0h9"/>` + strings.Repeat(`<use xlink:href="#dot" x="1"/>`, 100): `<use href="#dot" x="1">`,
	} {
		logo, err := ReadLogo([]byte(`<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">` + content + `</svg>`))
		if err != nil {
			t.Errorf("%v: %.200s", err, content)
		} else if !strings.Contains(html.UnescapeString(string(logo.Content)), want) {
			t.Errorf("no %s in %.900s", want, logo.Content)
		}
	}
}
