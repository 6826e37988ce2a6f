// Package oauth holds the rules of the authorization server: the OAuth 2.0 authorization code grant with S256 PKCE
// (RFC 6749, RFC 7636), refresh with rotation, revocation (RFC 7009), disconnect, and the authentication of access tokens. One file for
// each act.
//
// A connection links one user to one client (specification 2.2, 3). It is one row, whose states ARCHITECTURE.md draws. "Lapsed" is an
// authorized connection whose refresh deadline has passed: it is derived and never stored.
//
// # Terms
//
// The version of a connection counts its authorizations and disconnects. The generation of a refresh token counts the refreshes within a
// version. A family is every credential of one version. A replay is the use of a refresh token that was current before, or of another one
// of the current generation.
//
// # Invariants
//
//   - The version rises with every exchange and every disconnect, and never falls. A credential works only for the version that it
//     names. (TestModel)
//   - A code works once: it names the version under which it was issued, and the exchange raises the version. (TestCodesInFlight)
//   - A decision that is repeated has the same result again, and changes nothing. A code is not valid for longer by that.
//     (TestAllowAgain, TestAllowAgainIsNotLonger, TestDenyAgain, TestDisconnectAgain)
//   - One refresh token of a connection is current, the one with the row's generation and hash. A replay revokes the family, and the
//     revocation is committed before the caller gets a response. (TestCredentials_3_2)
//   - A refresh token that is ahead of its connection proves that the database lost commits, and restores them. A connection
//     that has ended stays ended. (TestLostRefreshes, TestLostCommitsReviveNothing)
//   - One statement on the row settles every race (sql/oauth/connection.sql). No act decides on what it read earlier.
//     (TestParallelRefreshes)
//   - The database's clock decides every expiry, in the statement that acts. (TestCodeExpires_3_1) That includes the end of the user's
//     calendar day, which the program computes. (TestMidnightDuringAllow_3_1, TestUnknownTimezone)
//   - The user gets one receipt for each time that a client begins to read, and for each end that is not the user's own, whoever sees it and
//     however often. (TestReceipts, TestReceiptOfAnEndThatSeveralServersSee)
//   - A refused act changes nothing, except that a replay revokes. (TestAuditOfRefusals)
//   - A credential of one kind is never accepted as another kind. (TestCredentialsOfOtherKinds)
//
// No error contains a credential.
package oauth
