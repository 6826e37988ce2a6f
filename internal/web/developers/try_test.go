//go:build check

package developers

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// docs/try-as-partner.sh goes a partner's way, in an empty folder, in both languages, and says how long it took.
func tryAsPartner(t *testing.T, driver, authority string) {
	t.Helper()
	try := exec.CommandContext(t.Context(), filepath.Join("..", "..", "..", "docs", "try-as-partner.sh"), driver)
	try.Env = newcomer(t, authority)
	output, err := try.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	const day = `\d{4}-\d{2}-\d{2} [1-9]\d* steps\n`
	want := regexp.MustCompile(`^TypeScript: npm install +[\d.]+ s\nTypeScript: the first steps read +[\d.]+ s\n` + day +
		`Go: go get +[\d.]+ s\nGo: the first steps read +[\d.]+ s\n` + day + `both, from nothing +[\d.]+ s\n$`)
	if !want.Match(output) {
		t.Errorf("it prints\n%s", output)
	}
}
