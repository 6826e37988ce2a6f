// Package usagepage is the page /usage of the private listener: what each client asked in the last day or week, drawn.
//
// What must always hold: the page is whole without scripts, at 320 px, in light and dark, and every drawing is there in
// words and numbers, too. It shows clients and counts, and nothing about a user. It takes a bounded time of the database.
//
// What it never does: change anything.
package usagepage
