//go:build check

package developers

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// docs/try-as-partner.sh goes a partner's way, in an empty folder, in both languages, and says how long it took.
func tryAsPartner(t *testing.T, service, authority string) {
	t.Helper()
	try := exec.CommandContext(t.Context(), filepath.Join("..", "..", "..", "docs", "try-as-partner.sh"), service)
	try.Env = append(newcomer(t, authority), "CA_FILE="+authority)
	output, err := try.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	const took, day = ` +[\d.]+ s\n`, `\d{4}-\d{2}-\d{2} [1-9]\d* steps\n`
	want := regexp.MustCompile(`^TypeScript: npm install` + took + `the sandbox is fetched` + took + `the sandbox is ready` + took +
		`TypeScript: the first steps read` + took + day + `from nothing` + took + `Go: go get` + took + `Go: the first steps read` + took + day + `from nothing` + took + `$`)
	if !want.Match(output) {
		t.Errorf("it prints\n%s", output)
	}
}
