// Package serial writes bills of materials with a serial number. It is derived from the rest of the bill: the same bill has the same bytes.
package serial

import (
	"bytes"
	"io"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

// Write writes a bill as CycloneDX's JSON, and sets its serial number, a URN with a UUID.
func Write(w io.Writer, bom *cdx.BOM) error {
	bom.SerialNumber = ""
	var text bytes.Buffer
	if err := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, text.Bytes()).URN()
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}
