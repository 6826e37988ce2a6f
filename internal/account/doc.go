// Package account owns the users, their sign-ins by one-time codes sent by email, and the sessions of the account pages.
//
// # Terms
//
//   - A sign-in serves one purpose in one browser and has the id of that purpose: an authorization request, or the one
//     session of the account pages that it starts.
//   - A code is six digits that prove that somebody reads the emails of an account's address.
//   - An attempt is a code that somebody enters, right or wrong.
//
// # Invariants
//
//   - A code serves its own sign-in and no other. It is valid for 10 minutes and five attempts, also when the attempts
//     are concurrent: the statement that spends an attempt decides. A new code replaces the old one.
//   - Nobody can find out here whether an address has an account. With and without one, the same statements run, the same
//     rows remain and the caller gets the same result; only the outbox, afterwards, sends the email or drops it. An email
//     goes to the address of the account, never to the one that was typed.
//   - No code is stored in plain text: the database holds a keyed hash, and the email waits in memory. When a server stops
//     or crashes, the emails that it had not sent are lost, and their users ask for a new code.
//   - A session of the account pages lasts 30 minutes from its sign-in, whatever is done in it, or until the user signs
//     out. The database holds a hash of its secret.
//   - Deleting a user ends all connections and removes what is known of the user in one transaction. Every table that
//     holds something of a user refers to the user's row with "on delete cascade", and a test looks for what is left.
//     The audit log keeps what happened to the connections, under a hash of the user's random id: it must be able to
//     prove to a partner or a court when access began and ended, and only somebody who has kept the id can find the
//     entries. The counters of codes keep their keyed hash of the address for an hour. The id is never reused.
//   - The hourly limits of codes are exact and sliding, over all servers.
//
// The package never logs an address or a code, and never decides what a signed-in user may do.
package account
