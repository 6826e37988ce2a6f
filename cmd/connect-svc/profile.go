//go:build profile

package main

import (
	"net/http"
	_ "net/http/pprof" //nolint:gosec // only in programs that are built to be measured
	"os"
)

// A program that is built with -tags profile serves Go's profiles on a listener of their own: `make bench PROFILES=dir`
// builds one. Released programs are built without the tag.
func init() {
	if address := os.Getenv("CONNECT_PROFILE_LISTEN"); address != "" {
		go func() { panic(http.ListenAndServe(address, nil)) }() //nolint:gosec // see above
	}
}
