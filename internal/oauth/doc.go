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
// # Terms
//
// The version of a connection counts its authorizations and disconnects. The generation of a refresh token counts the refreshes
// within a version. A family is every credential of one version. A replay is the use of a refresh token that was current before.
//
// # Invariants
//
//   - The version rises with every exchange and every disconnect, and never falls. A credential works only for the version that
//     it names.
//   - A code works once: it names the version under which it was issued, and the exchange raises the version.
//   - One refresh token of a connection is current, the one with the row's generation and hash. A replay revokes the family, and
//     is committed before the caller gets a response.
//   - One statement on the row settles every race (sql/oauth/connection.sql). Nothing is read first and decided later.
//   - The database's clock decides every expiry, in the statement that acts.
//   - An attempt that fails changes nothing, except that a replay revokes.
//   - Credentials are opened here and nowhere else, and no error contains one.
package oauth
