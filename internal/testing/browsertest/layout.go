package browsertest

import (
	_ "embed"

	"github.com/chromedp/chromedp"
)

//go:embed layout.js
var layoutFaults string

// LayoutFaults measures what is on the page at its present size and in its present colors, and describes each part
// that fails: text below the contrast of WCAG 2.2 AA (1.4.3), edges of fields below that of 1.4.11, targets below
// 2.5.8, and anything that makes the page scroll sideways (1.4.10).
func (tab *Tab) LayoutFaults() []string {
	tab.t.Helper()
	return value(tab, chromedp.Evaluate[[]string](layoutFaults))
}
