package browsertest

import (
	"strings"

	"github.com/chromedp/cdproto/accessibility"
)

// Node is a part of the page as a screen reader sees it.
type Node struct {
	Role        string
	Name        string
	Description string
	Properties  map[string]string // such as "focusable", "invalid" or "level", as JSON text without quotes
}

// Is says whether the property has this value.
func (n Node) Is(property, value string) bool { return n.Properties[property] == value }

// Accessible is the page's accessibility tree, from top to bottom, without what is hidden from screen readers.
func (tab *Tab) Accessible() []Node {
	tab.t.Helper()
	tree := command(tab, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	var nodes []Node
	for _, node := range tree.Nodes {
		if node.Ignored {
			continue
		}
		seen := Node{Role: text(node.Role), Name: text(node.Name), Description: text(node.Description), Properties: map[string]string{}}
		for _, property := range node.Properties {
			seen.Properties[string(property.Name)] = text(property.Value)
		}
		nodes = append(nodes, seen)
	}
	return nodes
}

func text(value *accessibility.Value) string {
	if value == nil {
		return ""
	}
	return strings.Trim(string(value.Value), `"`)
}
