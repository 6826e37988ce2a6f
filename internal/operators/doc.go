// Package operators knows who may act as the operator: the holder of the one token without a name (CONNECT_OPERATOR_TOKEN), and
// those of the named tokens of a file (CONNECT_OPERATOR_TOKENS_FILE). Everything of the private listener that asks for such a
// token shares one list. A browser shows its token once and then has a session of the console.
//
// # Invariants
//
//   - A token is kept as its SHA-256 and nothing else, in memory, in the file and in the database. Tokens are random, 256 bits, so
//     that their hash needs no salt.
//   - How long a lookup takes tells nothing of the tokens that there are: it compares with all of them, in constant time.
//   - Taking a line away always takes effect: a bad line of the file has no effect on the others. A token that stands in a bad line,
//     or in two, lets nobody in.
//   - A session lasts 8 hours by the database's clock, and ends with its token, on each server as soon as that has read its list
//     again. The database knows it by the hash of a secret that only the browser holds.
package operators
