// Build writes the developers' site as files.
//
//	go run ./internal/web/developers/build bin/developers
package main

import (
	"fmt"
	"os"

	"connect-svc/internal/brand"
	"connect-svc/internal/web/developers"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: build DIRECTORY")
		os.Exit(2)
	}
	site, err := developers.New(brand.Brand{})
	if err == nil {
		err = site.Write(os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
