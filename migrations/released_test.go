package migrations

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// Databases keep the checksums of the migrations that made them, and a program refuses those that others made. So a released migration never
// changes: released.sum, in the format of sha256sum, lists it. A release adds its own: `cd migrations && sha256sum *.sql > released.sum`.
func TestReleasedMigrationsAreUnchanged(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile("released.sum")
	if err != nil {
		t.Fatal(err)
	}
	files, err := fs.Glob(Files, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	released := strings.Split(strings.TrimSpace(string(list)), "\n")
	if len(released) > len(files) {
		t.Fatalf("%d migrations were released, and there are %d", len(released), len(files))
	}
	if newest := slices.Max(slices.Collect(maps.Values(Releases))); newest != int64(len(released)) {
		t.Errorf("the newest release has %d migrations, and %d were released", newest, len(released))
	}
	for i, line := range released { // new ones come after them
		text, err := fs.ReadFile(Files, files[i])
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(text)
		if now := hex.EncodeToString(sum[:]) + "  " + files[i]; now != line {
			t.Errorf("%s was released, and now is %s: leave it as it was, and add a migration", line, now)
		}
	}
}
