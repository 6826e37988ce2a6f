// Package authority is a certificate authority for servers on this machine: those of the demo and the sandbox.
//
// Its key can vouch only for localhost, 127.0.0.1, ::1 and the names of a sandbox, and is a file that only its owner can read.
package authority
