// Package operators knows who may act as the operator: the holder of the one token without a name (CONNECT_OPERATOR_TOKEN), and
// those of the named tokens of a file (CONNECT_OPERATOR_TOKENS_FILE). Everything of the private listener that asks for such a
// token shares one list.
//
// # Invariants
//
//   - A token is kept as its SHA-256 and nothing else, in memory and in the file. Tokens are random, 256 bits, so that their hash
//     needs no salt.
//   - How long a lookup takes tells nothing of the tokens that there are: it compares with all of them, in constant time.
//   - A file with a bad line is refused as a whole.
package operators
