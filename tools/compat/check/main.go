// Check compares a document with released ones and lists what breaks their clients.
//
//	go run -C tools ./compat/check NEW RELEASED...
//
// It exits with 0 when nothing does, with 1 when something does or a document cannot be read, and with 2 for wrong usage.
package main

import (
	"fmt"
	"os"

	"connect-svc/tools/compat"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: check NEW RELEASED...")
		os.Exit(2)
	}
	status := 0
	for _, released := range os.Args[2:] {
		breaks, err := compat.Files(released, os.Args[1])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if len(breaks) == 0 {
			fmt.Printf("%s breaks no client of %s\n", os.Args[1], released)
			continue
		}
		status = 1
		fmt.Printf("%s breaks clients of %s, in %d places:\n", os.Args[1], released, len(breaks))
		for _, found := range breaks {
			fmt.Println("  " + found.String())
		}
	}
	os.Exit(status)
}
