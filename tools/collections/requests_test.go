package main

import (
	"maps"
	"slices"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"
)

const partnerDocument = "../../api/openapi.yaml"

// A new operation of the contract, or a new example of a body, needs a request.
func TestEveryOperation(t *testing.T) {
	t.Parallel()
	document, err := openapi3.NewLoader().LoadFromFile(partnerDocument)
	if err != nil {
		t.Fatal(err)
	}
	want := map[step]bool{{"readSandbox", ""}: true, {"decideAuthorization", "allow"}: true}
	for _, item := range document.Paths.Map() {
		for _, described := range item.Operations() {
			if described.RequestBody == nil {
				want[step{described.OperationID, ""}] = true
				continue
			}
			for _, content := range described.RequestBody.Value.Content {
				for name := range content.Examples {
					want[step{described.OperationID, name}] = true
				}
			}
		}
	}
	got := map[step]bool{}
	for _, s := range steps {
		got[s] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	list, err := requests(partnerDocument, "../../api/sandbox.yaml")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, r := range list {
		names[r.Name] = true
	}
	if len(names) != len(steps) {
		t.Errorf("%q are fewer names than requests", slices.Sorted(maps.Keys(names)))
	}
}
