// Package credential makes and opens what partners and users hold: client secrets, authorization codes, access
// tokens, refresh tokens and cursors.
//
// # Sealed values
//
// Codes, tokens and cursors hold their own facts. A value is its kind's prefix (specification 2.9) and, in unpadded
// base64url, an authenticated encryption of a short payload under the keyset's primary key. The kind is authenticated
// too, so that a credential of one kind is invalid as any other, and a value with one changed bit is invalid. The domain
// that seals a payload decides what it says.
//
// # The keyset
//
// The keyset is one file (see [CreateKeyset]), the same for all servers. It holds
//
//   - the sealing keys: the primary one, the one that becomes primary next, and those that were primary before. A rotation
//     makes the next one primary and adds a new next one. So a server that still has the previous file opens what a
//     server with the new file seals, and nobody is signed out;
//   - the identifier key, for values that must never change. It is never rotated.
//
// # Invariants
//
//   - A client secret is never stored, only its hash.
//   - Nothing in this package writes a credential to an error or a log. [Redact] removes credentials from texts by their
//     prefixes, for the log handler.
//   - The package imports nothing of the service.
package credential
