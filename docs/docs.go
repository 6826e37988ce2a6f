// Package docs holds the documents that the program itself goes by: the alerts, and what to do when one fires.
package docs

import (
	_ "embed"
	"regexp"
	"strings"
)

// Alerts are the alerting rules, as Prometheus reads them.
//
//go:embed alerts.yaml
var Alerts []byte

//go:embed troubleshooting.md
var troubleshooting string

// Advice is what the troubleshooting guide says of an alert. Between backquotes is what is to be typed or looked for.
type Advice struct{ Meaning, Do string }

var link = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// Guide is the guide's advice under "When an alert fires", by the alert's name, without its links.
func Guide() map[string]Advice {
	_, chapter, _ := strings.Cut(troubleshooting, "\n## When an alert fires\n")
	chapter, _, _ = strings.Cut(chapter, "\n## ")
	guide := map[string]Advice{}
	for line := range strings.Lines(chapter) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		name, isAlert := strings.CutPrefix(strings.TrimSpace(cells[0]), "`")
		if len(cells) != 3 || !isAlert {
			continue
		}
		text := func(cell string) string { return link.ReplaceAllString(strings.TrimSpace(cell), "$1") }
		guide[strings.TrimSuffix(name, "`")] = Advice{Meaning: text(cells[1]), Do: text(cells[2])}
	}
	return guide
}
