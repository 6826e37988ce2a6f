// Package operators knows who may act as the operator: the holder of the one token without a name (CONNECT_OPERATOR_TOKEN), and
// the holders of the named tokens of a file (CONNECT_OPERATOR_TOKENS_FILE). The operator API and the console share one list. A browser
// shows its token once and then has a session of the console.
//
// # Invariants
//
//   - Only the SHA-256 of a token is kept, in memory, in the file and in the database. Tokens have 256 random bits, so that their hash
//     needs no salt (TestTokens).
//   - Removing a line always takes effect, even if other lines are invalid. A token of an invalid line, or of two lines, is refused
//     (TestBadFiles).
//   - A reload that fails only removes tokens (TestLeft).
//   - A session lasts 8 hours by the database's clock, and ends with its token on each server that has reloaded its list. The database
//     has the hash of a secret that only the browser holds (TestSession).
//   - A token that an operator makes up must be strong (TestBits).
//
// A lookup compares with all tokens in constant time, so that its duration reveals nothing about them.
package operators
