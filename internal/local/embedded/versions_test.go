package embedded

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The documents name the versions that `make test-postgres` tests, of which each is pinned alike for every platform.
func TestSupportedVersions(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		text, err := os.ReadFile("../../../" + path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var pinned struct {
		OptionalDependencies map[string]string `json:"optionalDependencies"`
	}
	if err := json.Unmarshal([]byte(read(".ci/postgresql/package.json")), &pinned); err != nil {
		t.Fatal(err)
	}
	versions := map[int]string{} // by major version
	for name, version := range pinned.OptionalDependencies {
		var major int
		var platform string
		if _, err := fmt.Sscanf(name, "postgresql-%d-%s", &major, &platform); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		of, ok := strings.CutPrefix(version, "npm:@embedded-postgres/"+platform+"@")
		if !ok || !strings.HasPrefix(of, fmt.Sprint(major, ".")) || versions[major] != "" && versions[major] != of {
			t.Errorf("%s is %s, beside %s", name, version, versions[major])
		}
		versions[major] = of
	}
	majors := slices.Sorted(maps.Keys(versions))
	newest := majors[len(majors)-1]
	var all []int
	for major := oldest; major <= newest; major++ {
		all = append(all, major)
	}
	if diff := cmp.Diff(all, majors); diff != "" || !slices.Contains(majors, fetchedMajor) {
		t.Errorf("supported and tested, with %d that is downloaded: %s", fetchedMajor, diff)
	}
	for _, document := range []string{"README.md", "docs/install.md", "docs/settings.md"} {
		text := strings.Join(strings.Fields(strings.ReplaceAll(read(document), "**", "")), " ")
		if want := fmt.Sprintf("PostgreSQL %d or newer (%d to %d are tested)", oldest, oldest, newest); !strings.Contains(text, want) {
			t.Errorf("%s does not say %q", document, want)
		}
	}
}
