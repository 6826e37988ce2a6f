// Get prints the metadata of a sandbox.
package main

import (
	"io"
	"log"
	"net/http"
	"os"
)

func main() {
	answer, err := http.Get(os.Getenv("CONNECT_BASE_URL") + "/.well-known/oauth-authorization-server")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := io.Copy(os.Stdout, answer.Body); err != nil {
		log.Fatal(err)
	}
}
