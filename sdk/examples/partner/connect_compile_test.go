package partner

import (
	"os/exec"
	"testing"
)

// doc.go says so: it can be copied as it is.
func TestConnectFileStandsAlone(t *testing.T) {
	t.Parallel()
	build := exec.CommandContext(t.Context(), "go", "vet", "connect.go")
	if output, err := build.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}
