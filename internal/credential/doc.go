// Package credential makes and opens what partners and users hold: client secrets, authorization codes, access
// tokens, refresh tokens and cursors.
//
// Codes, tokens and cursors hold their own facts. A value is its kind's prefix (specification 2.9) and, in unpadded
// base64url, an authenticated encryption of a short payload under the keyset's primary key. The kind is bound into
// the encryption, so that no credential passes for one of another kind, and whoever changes one bit of a value holds
// nothing. What the payload says is the business of the domain that seals it.
//
// The keyset is one file (see [CreateKeyset]), the same for all servers. It holds
//
//   - the sealing keys: one primary, the one that becomes primary next, and those that were primary before. A rotation
//     makes the next one primary and adds a new next one, so that a server that still runs with the file of before
//     opens what a server with the new file seals, and nobody is signed out;
//   - the identifier key, for values that must never change. It is never rotated.
//
// What must always hold: a client secret is never stored, only its hash; nothing in this package writes a credential
// to an error or a log. [Redact] takes credentials out of texts by their prefixes, for the log handler.
//
// The package imports nothing of the service.
package credential
