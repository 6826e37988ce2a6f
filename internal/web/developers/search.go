package developers

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"html/template"
	"io"
	"slices"
	"strings"
)

// place is something on a page that can be linked to and searched for: the page, a heading or a field.
type place struct {
	Page   page
	ID     string // empty for the page itself
	Label  string
	Within string // the heading that a field is below
	Text   string // from here to the next place
	Field  bool
	Top    bool // a heading of the second level
}

// placesOf finds what is on a page. What is folded away repeats the rest.
func placesOf(p page, body template.HTML) (places []place, err error) {
	places = []place{{Page: p, Label: p.Label}}
	heading := ""
	// The pages are well-formed but for elements such as br.
	d := xml.NewDecoder(strings.NewReader(string(body)))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return places, nil
		} else if err != nil {
			return nil, err
		}
		switch token := token.(type) {
		case xml.StartElement:
			id, class := attribute(token, "id"), attribute(token, "class")
			switch name := token.Name.Local; {
			case name == "details" || class == "anchor" || class == "language" || name == "h1":
				err = d.Skip()
			case id == "":
			case name == "h2" || name == "h3":
				heading, err = textOf(d)
				places = append(places, place{Page: p, ID: id, Label: heading, Top: name == "h2"})
			case class == "field":
				places = append(places, place{Page: p, ID: id, Label: id[strings.LastIndexByte(id, '-')+1:], Within: heading, Field: true})
			}
			if err != nil {
				return nil, err
			}
		case xml.CharData:
			last := &places[len(places)-1]
			last.Text += string(token)
		}
	}
}

func attribute(element xml.StartElement, name string) string {
	at := slices.IndexFunc(element.Attr, func(a xml.Attr) bool { return a.Name.Local == name })
	if at < 0 {
		return ""
	}
	return element.Attr[at].Value
}

// textOf reads to the end of the element whose start was read last, but for links to itself.
func textOf(d *xml.Decoder) (text string, err error) {
	for {
		token, err := d.Token()
		if err != nil {
			return "", err
		}
		switch token := token.(type) {
		case xml.StartElement:
			if attribute(token, "class") == "anchor" {
				err = d.Skip()
			} else {
				var inner string
				inner, err = textOf(d)
				text += inner
			}
			if err != nil {
				return "", err
			}
		case xml.EndElement:
			return strings.TrimSpace(text), nil
		case xml.CharData:
			text += string(token)
		}
	}
}

// searchIndex is a script that hands the places over to the one that searches. A script can be loaded from a disk, too.
func searchIndex(places []place) ([]byte, error) {
	type entry [4]string // label, where it is, address, and text, which for a field begins with its label
	entries := make([]entry, len(places))
	for i, p := range places {
		where, address := p.Page.Label, p.Page.File()
		if p.ID == "" {
			where = groupOf(p.Page)
		}
		if p.Within != "" {
			where += " › " + p.Within
		}
		if p.ID != "" {
			address += "#" + p.ID
		}
		entries[i] = entry{p.Label, where, address, strings.TrimPrefix(strings.Join(strings.Fields(p.Text), " "), p.Label+" ")}
	}
	list, err := json.Marshal(entries)
	return slices.Concat([]byte("self.places = "), list, []byte(";\n")), err
}

// groupOf is the part of the navigation that a page is in.
func groupOf(p page) string {
	at := slices.IndexFunc(contents, func(g group) bool { return slices.Contains(g.Pages, p) })
	return contents[at].Label
}
