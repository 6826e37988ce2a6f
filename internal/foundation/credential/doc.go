// Package credential makes and opens what partners and users hold: client secrets, authorization codes, access
// tokens, refresh tokens and cursors.
//
// # Sealed values
//
// Codes, tokens and cursors hold their own facts. A value is the prefix of its kind (specification 2.9), followed by a short
// payload that is encrypted and authenticated under the primary key of the keyset, in unpadded base64url. The kind is authenticated
// too. The domain that seals a payload decides its content.
//
// # The keyset
//
// The keyset is one file (see [CreateKeyset]), the same for all servers. It holds
//
//   - the sealing keys: the primary one, the one that becomes primary next, and those that were primary before. A rotation
//     makes the next one primary and adds a new next one. A server that still has the previous file therefore opens what a
//     server with the new file seals, and nobody is signed out;
//   - the identifier key, for values that must never change. It is never rotated.
//
// The database has a mark of each key that was used: for a sealing key an empty payload that it sealed, for the identifier key its
// digest of nothing. A server with a keyset that lacks a marked key does not start ([Keyring.CheckMarks]).
//
// # Invariants
//
//   - A value of one kind is invalid as any other kind, and a value with one changed bit is invalid (TestKindsDoNotPassForAnother,
//     TestAlteredValuesAreInvalid).
//   - A rotation invalidates nothing (TestRotationKeepsOldKeys).
//   - A keyset that lacks a key which was used on a database is refused there (TestMarks).
//   - A keyset file that others may read or change is refused (TestKeysetOfOthersIsRefused).
//   - The service stores only the hash of a client secret (TestClientSecrets).
//   - No error holds a credential (TestKeysetFileErrors), and [Redact] finds credentials by their prefixes, for the log handler
//     (TestRedact).
//
// The package imports nothing of the service.
package credential
