// Package usagepage is the page /usage of the private listener: the requests of each client in the last day or week, drawn.
//
// # Invariants
//
//   - The page is complete without scripts, at 320 px, in light and dark. Every drawing is there in words and numbers, too.
//   - It shows clients and counts, and nothing about a user.
//   - It uses the database for a bounded time, and only reads.
package usagepage
