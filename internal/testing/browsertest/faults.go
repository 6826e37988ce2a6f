package browsertest

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"

	"github.com/chromedp/chromedp"

	"connect-svc/internal/edge/pages/chromium"
)

// axeScript prints where axe-core is. Tests run in the folder of their package, which is as deep as this one.
const axeScript = "../../../internal/testing/browsertest/axe.sh"

var axe = sync.OnceValues(func() (string, error) {
	var complaint strings.Builder
	command := exec.Command(axeScript)
	command.Stderr = &complaint
	path, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("no axe-core, which npm fetches: %w: %s", err, complaint.String())
	}
	source, err := os.ReadFile(strings.TrimSpace(string(path)))
	return string(source), err
})

// Violations are what axe-core finds wrong with the page as it is now, by the rules of WCAG 2.2 AA and by those that it
// calls best practices, or by the named rules alone: the rule, what it asks for, and where. It runs as in a developer's console,
// which the page's content security policy does not restrict.
func (tab *Tab) Violations(rules ...string) []string {
	tab.t.Helper()
	source, err := axe()
	if err != nil {
		tab.t.Fatal(err)
	}
	if !value(tab, chromedp.Evaluate[bool](`"axe" in window`)) {
		tab.Do(chromedp.Evaluate[chromedp.Void](source + "\n;void 0"))
	}
	// Without preload it puts no copies of style sheets into the page, which the page's policy refuses: one rule needs them, for
	// pages that lock the screen's orientation, and no style sheet of ours asks for it.
	only, passes := "", 10
	if len(rules) > 0 {
		only, passes = ", runOnly: "+asJSON(rules), 1
	}
	run := `axe.run(document, {preload: false, resultTypes: ["violations"]` + only + `}).then((result) => {
		if (result.passes.length < ` + strconv.Itoa(passes) + `) throw new Error("axe-core has checked next to nothing");
		return result.violations.map((v) => v.id + ": " + v.help + ": " + v.nodes.map((n) => n.target.join(" ")).join(", "));
	})`
	return value(tab, chromedp.Evaluate[[]string](run, chromedp.EvalAwaitPromise))
}

// LayoutFaults are the [chromium.Faults] of the page as it is now.
func (tab *Tab) LayoutFaults() []string {
	tab.t.Helper()
	return value(tab, chromedp.Evaluate[[]string](chromium.Faults, chromedp.EvalAwaitPromise))
}
