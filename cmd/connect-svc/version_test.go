package main

import (
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"connect-svc/api"
)

// `version` needs no setting and no database.
func TestVersion(t *testing.T) {
	t.Parallel()
	contract := regexp.MustCompile(`(?m)^  version: (\S+)$`).FindSubmatch(api.Partner)
	if contract == nil {
		t.Fatal("the partner API's document has no version")
	}
	want := map[string]string{
		"version":          built().Version,
		"commit":           built().Commit,
		"contract_version": string(contract[1]),
		"go_version":       runtime.Version(),
	}
	if diff := cmp.Diff(want, succeedJSON[map[string]string](t, nil, "", "version")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	text := succeed(t, nil, "", "version")
	if strings.Count(text, "\n") != 1 {
		t.Errorf("not one line: %q", text)
	}
	for name, value := range want {
		if value == "" || !strings.Contains(text, value) {
			t.Errorf("%s %q is not in %q", name, value, text)
		}
	}
	if text := succeed(t, nil, "", "--version"); text != built().String()+"\n" {
		t.Errorf("--version: %q", text)
	}
}
