package browsertest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// axe is the source of axe-core, which axe.sh finds or fetches.
var axe = sync.OnceValues(func() (string, error) {
	root, err := repository()
	if err != nil {
		return "", err
	}
	var complaint strings.Builder
	command := exec.Command(filepath.Join(root, "internal", "testing", "browsertest", "axe.sh"))
	command.Stderr = &complaint
	path, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("axe-core cannot be had (it is fetched with npm): %w: %s", err, complaint.String())
	}
	source, err := os.ReadFile(strings.TrimSpace(string(path)))
	return string(source), err
})

// repository is the folder that holds go.mod. A test runs in the folder of its package.
func repository() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod above the folder of the test")
		}
	}
	return "", err
}

// Violations are what axe-core finds wrong with the page as it is now, by the rules of WCAG 2.2 AA and by those that it
// calls best practices: the rule, what it asks for, and where. The page's content security policy holds for the page,
// not for what a developer's console runs in it, and this is run there.
func (tab *Tab) Violations() []string {
	tab.t.Helper()
	source, err := axe()
	if err != nil {
		tab.t.Fatal(err)
	}
	if !value(tab, chromedp.Evaluate[bool](`"axe" in window`)) {
		tab.Do(chromedp.Evaluate[chromedp.Void](source + "\n;void 0"))
	}
	const run = `axe.run(document, {resultTypes: ["violations"]}).then((result) => {
		if (result.passes.length < 10) throw new Error("axe-core has checked next to nothing");
		return result.violations.map((v) => v.id + ": " + v.help + ": " + v.nodes.map((n) => n.target.join(" ")).join(", "));
	})`
	return value(tab, chromedp.Evaluate[[]string](run, func(p *runtime.EvaluateParams) {
		wait := true
		p.AwaitPromise = &wait
	}))
}
