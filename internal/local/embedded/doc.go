// Package embedded runs a private PostgreSQL for the demo, the sandbox and the tests: one server, on loopback, in one directory, for
// as long as the program that started it.
//
// # Invariants
//
//   - The server does not outlive its program, even if the program is killed. On Linux the kernel stops the server together
//     with the thread that started it; elsewhere the next start stops it (TestKilledParent).
//   - One program uses a directory at a time: a file lock makes a second one fail with an error that says so (TestOneAtATime).
//   - Committed data survive a restart, unless the server is ephemeral (TestRestartFindsData, TestDurability).
//   - An ephemeral server leaves no files (TestEphemeralLeavesNothing, TestAbandonedEphemeralIsRemoved). A server on a copy leaves its
//     template for later ones, which is made once however many start at the same time (TestCopies).
//
// PostgreSQL refuses to run as root. If root starts it, it runs as the account postgres, or else nobody, in a directory that this
// account can enter: beneath /var/lib/connect-svc if the configured directory does not qualify.
//
// # Windows
//
// There PostgreSQL is stopped by pg_ctl, because Windows has no signals. It refuses to run as an administrator, and the package
// selects no other account.
//
// # Programs
//
// The server's programs are those in PATH, or else the newest installed ones (TestProgramsOfPath). Existing data get those of their major
// version. If there are none, the library embedded-postgres downloads them once.
//
// The package is not for production: one user owns everything, and nothing is tuned.
package embedded
