// Package authority is a certificate authority for servers on this machine: those of the demo and the sandbox.
//
// The demo's key can vouch only for localhost, 127.0.0.1 and ::1, and is a file that only its owner can read. The sandbox forgets its key
// when it has started.
package authority
