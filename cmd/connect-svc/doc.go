// Command connect-svc is the whole service: the public and the private listener, background work, the operator's
// command line and the demo.
//
// main calls run, which gets everything from outside as arguments, so that tests run commands in process. A command has no
// rules: it checks how it was called, calls an operation of api/operator.yaml in this process (api.go), and prints the answer
// (output.go). These commands are made from the x-cli of the operations (acts.gen.go, by tools/commands); beside them stand, in a file for
// each group, what checks several flags together and what writes more than a table. Imports, migrations, keys and all else that is not
// an operation of that document call a domain, in a file each. A command's flags are the fields of its type, and a setting is a flag with the tag `setting`
// (package settings). The parameters of its Run are what it needs: the program, its group, and the operator API, for which kong
// connects to the database before.
//
// # Invariants
//
//   - A command that is called wrongly, or with a bad setting, ends with status 2. A command that fails ends with status 1. Both
//     say why in one line on standard error, without credentials (TestWrongUsage, TestAllBadSettingsAreTold,
//     TestWebhookVerifyNeverPrintsTheSecret).
//   - With --output json, standard output is one JSON value and nothing else (TestEmptyListsAreArrays, TestClient).
//   - The commands on the operator API say, ask and print what testdata/acts.golden has (TestActs).
package main
