package serial

import (
	"bytes"
	"regexp"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// Two builds of one bill have the same bytes, and another bill, also one that was made from it, has another number.
func TestWrite(t *testing.T) {
	t.Parallel()
	written := func(bom *cdx.BOM, version string) string {
		bom.Metadata = &cdx.Metadata{Component: &cdx.Component{Type: cdx.ComponentTypeApplication, Name: "connect-svc", Version: version}}
		var out bytes.Buffer
		if err := Write(&out, bom); err != nil {
			t.Fatal(err)
		}
		read := new(cdx.BOM)
		if err := cdx.NewBOMDecoder(&out, cdx.BOMFileFormatJSON).Decode(read); err != nil {
			t.Fatal(err)
		}
		return read.SerialNumber
	}
	bom := cdx.NewBOM()
	first := written(bom, "v1.2.3")
	again := written(cdx.NewBOM(), "v1.2.3")
	later := written(bom, "v1.2.4")
	back := written(bom, "v1.2.3")
	if !regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(first) {
		t.Errorf("the number is %q", first)
	}
	if again != first || back != first || later == first {
		t.Errorf("%s, again %s, of another version %s, back %s", first, again, later, back)
	}
}
