// Package account owns the users, how one shows that an address is theirs (a one-time code sent by mail), and who is
// signed in to the account pages.
//
// What must always hold:
//
//   - A sign-in serves one purpose in one browser, and has the id of that purpose: an authorization request, or the one
//     session of the account pages that it starts. A code opens nothing else.
//   - A code is valid for 10 minutes and five tries, also when the tries come at the same time: the statement that takes
//     a try decides. A new code replaces the old one.
//   - Nobody learns here whether an address has an account. Both take the same statements, leave the same rows and get
//     the same answer; only the outbox, after the answer, sends or drops the letter. A letter goes to the address of
//     the account, never to the one that was typed.
//   - A code lies nowhere in plain: the database holds a keyed hash, the letter waits in memory. What a stopped or
//     crashed server had not sent is lost, and its user asks for a new code.
//   - A session of the account pages lasts 30 minutes from its sign-in, whatever is done in it, or until the user signs
//     out. The database knows a hash of its secret.
//   - Deleting a user ends all connections and removes what is known of the user in one transaction. Every table that
//     holds something of a user refers to the user's row with "on delete cascade", and a test looks for what is left.
//     The audit log keeps what happened to the connections, under a hash of the user's random id: it must be able to
//     tell a company or a court when access began and ended, and only who has kept the id can find the entries. The
//     counters of codes keep their keyed hash of the address until the hour is over. The id is not given again.
//   - The limits of codes an hour are exact and sliding, over all servers.
//
// What it never does: log an address or a code, or decide what a signed-in user may do.
package account
