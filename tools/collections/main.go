// Command collections writes collections of requests for Postman and Bruno, from the documents of the partner API and of the sandbox's
// driver. The requests run from the first to the last against a sandbox: the first reads its addresses and credentials into variables,
// the second consents as one of its users, and those that get tokens keep them in variables. Usage: collections PARTNER SANDBOX FOLDER
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "collections:", err)
		os.Exit(1)
	}
}

func run(partner, sandbox, folder string) error {
	list, err := requests(partner, sandbox)
	if err != nil {
		return err
	}
	inPostman, errPostman := postman(list)
	inBruno, errBruno := bruno(list)
	return errors.Join(errPostman, errBruno,
		os.WriteFile(filepath.Join(folder, "postman.json"), inPostman, 0o644),
		os.WriteFile(filepath.Join(folder, "bruno.txtar"), inBruno, 0o644))
}
