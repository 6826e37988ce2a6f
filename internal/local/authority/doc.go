// Package authority is a certificate authority for servers on this machine alone: the demo's and the sandbox's.
//
// Its key can vouch for nothing but localhost, 127.0.0.1 and ::1, and is a file that only its owner can read.
package authority
