package brand

import (
	"regexp"
	"strings"
)

var (
	comment = regexp.MustCompile(`(?s)/\*.*?\*/`)

	// selector matches elements only by name, class or id, which a browser compares at once.
	selector = regexp.MustCompile(`^\s*[.#]?[\w-]+(\s*,\s*[.#]?[\w-]+)*\s*$`)

	// declaration matches a property whose value has closed quotes, so that later text cannot become a part of it.
	declaration = regexp.MustCompile(`^\s*((?:` + properties + `)\s*:\s*(?:[^"'{}:]|"[^"{}\r\n\f]*"|'[^'{}\r\n\f]*')+?)\s*$`)

	clipped = regexp.MustCompile(`^(clip|mask)`)
)

// harmless reports whether a style or a value loads nothing.
func harmless(value string) bool { return !harmful.MatchString(reference.ReplaceAllString(value, "")) }

// declarations returns the known declarations of a style.
func declarations(style string) string {
	var kept []string
	for text := range strings.SplitSeq(style, ";") {
		if found := declaration.FindStringSubmatch(text); found != nil && harmless(found[1]) {
			kept = append(kept, found[1])
		}
	}
	return strings.Join(kept, ";")
}

// sheet returns the rules of a style sheet that have plain selectors. It drops masks and clips, which would apply to every selected
// element.
func (d *drawing) sheet(text string) string {
	text = comment.ReplaceAllString(text, " ")
	if !harmless(text) {
		return ""
	}
	var kept strings.Builder
	for rule := range strings.SplitSeq(text, "}") {
		chosen, body, _ := strings.Cut(rule, "{")
		if !selector.MatchString(chosen) {
			continue
		}
		var looks []string
		for look := range strings.SplitSeq(declarations(body), ";") {
			if look != "" && !clipped.MatchString(look) {
				looks = append(looks, look)
			}
		}
		look := strings.Join(looks, ";")
		for _, named := range reference.FindAllStringSubmatch(look, -1) {
			d.paints = append(d.paints, named[1])
		}
		d.rules += 1 + strings.Count(chosen, ",")
		kept.WriteString(strings.TrimSpace(chosen) + "{" + look + "}")
	}
	return kept.String()
}
