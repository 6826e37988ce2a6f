// Sbom writes the bill of materials of a Go program that was built, in CycloneDX's JSON, the same bytes for the same program.
//
//	go run -C tools ./sbom PROGRAM VERSION > connect-svc.cdx.json
//
// Each module has its version, its checksum of go.sum, which is a SHA-256 over its files, its licenses, which are read from its files,
// and the modules that it requires. The standard library is one of them. It exits with 1
// where a license cannot be read or is not one of those that the project accepts, and with 2 for wrong usage.
package main

import (
	"fmt"
	"os"

	"connect-svc/tools/sbom/serial"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom PROGRAM VERSION")
		os.Exit(2)
	}
	bom, err := billOf(os.Args[1], os.Args[2])
	if err == nil {
		err = serial.Write(os.Stdout, bom)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
