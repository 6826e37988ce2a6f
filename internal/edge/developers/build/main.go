// Build writes the developers' site as files.
//
//	go run ./internal/edge/developers/build bin/developers https://connect.example.com
package main

import (
	"fmt"
	"os"

	"connect-svc/internal/edge/developers"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: build DIRECTORY BASE_URL")
		os.Exit(2)
	}
	site, err := developers.New(developers.Config{BaseURL: os.Args[2]})
	if err == nil {
		err = site.Write(os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
