// Package portal knows who may see and change a partner's own pages: people of the partner whom the operator gave a link. They have no
// accounts. A link is for one client and becomes a session once, in the browser that opens it.
//
//	CreateLink ─▶ link, at most 24 h ─Open─▶ session, at most 12 h ─▶ ended
//	                     └───────────End, EndAll, the client is disabled or offboarded, time───────┘
//
// # Invariants
//
//   - A link is opened at most once, also by browsers that open it at the same time (TestOneBrowserOpensALink).
//   - The database has hashes of secrets with 256 random bits. A session is for its client alone: with another client's id its key
//     finds nothing (TestSessionIsForItsClient).
//   - When Disable, Offboard, End or EndAll returns, no link and no session that it ends works on any server, and enabling the client
//     brings none back (TestWhatEndsSessions).
//   - Each link, its opening and each end by a person is in the audit log (TestPortalIsAudited).
//   - A client has at most 100 links and sessions at a time (TestLinksAreBounded).
package portal
