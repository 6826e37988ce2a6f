package developers

import (
	"encoding/json"
	"html/template"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// place is a page, a heading or a field, which readers can link to and search for.
type place struct {
	Page   page
	ID     string // empty for the page itself
	Label  string
	Within string // the heading above a field
	Text   string // up to the next place
	Field  bool
	Top    bool // a heading of the second level
}

// placesOf finds the places of a page. It skips folded parts, which repeat the others.
func placesOf(p page, body template.HTML) ([]place, error) {
	document, err := html.Parse(strings.NewReader(string(body)))
	if err != nil {
		return nil, err
	}
	places, heading := []place{{Page: p, Label: p.Label}}, ""
	var visit func(*html.Node)
	visit = func(node *html.Node) {
		id, class := attribute(node, "id"), attribute(node, "class")
		switch name := node.Data; {
		case node.Type == html.TextNode:
			places[len(places)-1].Text += node.Data
		case name == "details" || class == "anchor" || class == "language" || name == "h1":
			return
		case id == "":
		case name == "h2" || name == "h3":
			heading = textOf(node)
			places = append(places, place{Page: p, ID: id, Label: heading, Top: name == "h2"})
			return
		case class == "field":
			places = append(places, place{Page: p, ID: id, Label: id[strings.LastIndexByte(id, '-')+1:], Within: heading, Field: true})
		}
		for child := range node.ChildNodes() {
			visit(child)
		}
	}
	visit(document)
	return places, nil
}

func attribute(element *html.Node, name string) string {
	at := slices.IndexFunc(element.Attr, func(a html.Attribute) bool { return a.Key == name })
	if at < 0 {
		return ""
	}
	return element.Attr[at].Val
}

// textOf returns the text of a heading without its link to itself.
func textOf(heading *html.Node) (text string) {
	for node := range heading.Descendants() {
		if node.Type == html.TextNode && attribute(node.Parent, "class") != "anchor" {
			text += node.Data
		}
	}
	return strings.TrimSpace(text)
}

// searchIndex returns a script that passes the places to site.js. Unlike JSON, a script also loads from a disk.
func searchIndex(places []place) ([]byte, error) {
	type entry [4]string // label, where it is, address and text, without the label with which a field's text begins
	entries := make([]entry, len(places))
	for i, p := range places {
		where, address := groupOf(p.Page), p.Page.File()
		if p.ID != "" {
			where, address = p.Page.Label, address+"#"+p.ID
		}
		if p.Within != "" {
			where += " › " + p.Within
		}
		entries[i] = entry{p.Label, where, address, strings.TrimPrefix(strings.Join(strings.Fields(p.Text), " "), p.Label+" ")}
	}
	list, err := json.Marshal(entries)
	return slices.Concat([]byte("self.places = "), list, []byte(";\n")), err
}

// groupOf returns the label of a page's group.
func groupOf(p page) string {
	at := slices.IndexFunc(contents, func(g group) bool { return slices.Contains(g.Pages, p) })
	return contents[at].Label
}
