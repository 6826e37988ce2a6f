// Command connect-svc is the whole service: the public and the private listener, background work, the operator's
// command line and the demo.
//
// main calls run, which gets everything from outside as arguments, so that tests run commands in process. There is one
// file for each group of commands. No rules live here: a command checks how it was called, asks a domain, and prints.
//
// What always holds: a command that was called wrongly, or has a bad setting, ends with status 2; one that could not do
// what it was asked ends with status 1; either says why in one line on standard error. What is printed on standard
// output with --output json is one JSON value and nothing else.
package main
