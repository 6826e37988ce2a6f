// Command connect-svc is the whole service: the public and the private listener, background work, the operator's
// command line and the demo.
//
// main calls run, which gets everything from outside as arguments, so that tests run commands in process. There is one
// file for each group of commands. No rules live here: a command checks how it was called, asks a domain, and prints.
// A command's flags are the fields of its type, and a setting is a flag with the tag `setting` (settings.go). What its Run needs
// are its parameters: the program, its group, and the database (database.go), to which kong connects before.
//
// # Invariants
//
//   - A command that is called wrongly, or with a bad setting, ends with status 2. One that cannot do what it was asked
//     ends with status 1. Either says why in one line on standard error, which holds no credential.
//   - With --output json, standard output is one JSON value and nothing else.
package main
