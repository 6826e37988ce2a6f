// Package oauth holds the rules of the authorization server: the OAuth 2.0 authorization code grant with S256 PKCE
// (RFC 6749, RFC 7636), refresh with rotation, revocation (RFC 7009) and disconnect, and the meaning of an access
// token. One file for each act.
//
// A connection links one user to one client (specification 2.2, 3). It is one row:
//
//	(none) ──exchange──▶ authorized ──revoke a refresh token, replay a used one──▶ revoked
//	                      │  ▲  ▲  ▲                                                │  │
//	                      │  │  │  └────────────── exchange, same scopes ───────────┘  │
//	           disconnect │  │  └─refresh                                              │ disconnect
//	                      ▼  └──────────────── exchange ──────── disconnected ◀────────┘
//
// "Lapsed" is an authorized connection whose refresh deadline has passed; it is derived and never stored.
//
// What must always hold:
//
//   - The version goes up with every exchange and every disconnect, and never down. Whatever a credential can do, it
//     can do only to the version that it names.
//   - A code works once: it names the version that it was issued under, and the exchange raises it.
//   - One refresh token of a connection is current, the one of the row's generation and hash. An authentic token of an
//     older generation is a replay, and revokes the family; that is committed before the caller is told.
//   - Every race is settled by one statement on the row (sql/oauth/connection.sql); nothing is read first and decided later.
//   - Every expiry is decided by the database's clock, in the statement that acts.
//   - A failed attempt changes nothing but what a replay must change.
//
// Credentials are opened here and nowhere else, and no error holds one.
package oauth
