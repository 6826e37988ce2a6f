// Package account owns the users, their sign-ins by one-time codes sent by email, and the sessions of the account pages.
//
// # Terms
//
//   - A sign-in serves one purpose in one browser and has the id of that purpose: an authorization request, or the one
//     session of the account pages that it starts.
//   - A code is six digits that prove that somebody reads the emails of an account's address.
//   - An attempt is a code that somebody enters, right or wrong.
//   - A link comes with the code in the same email, and signs in in the browser that asked for it.
//   - A budget is what emails and attempts count towards: that of an address, or that of a known browser.
//
// # Invariants
//
//   - A code serves its own sign-in and no other. It is valid for 10 minutes and five attempts, also when the attempts
//     are concurrent: the statement that spends an attempt decides. A new code replaces the old one.
//   - Nobody can find out here whether an address has an account. With and without one, the same statements run, the same
//     rows remain and the caller gets the same result. Only what sends the emails knows: with an account it transmits the
//     email, without one it does the same work up to naming a recipient. What a page says of an email is decided before
//     that. An email goes to the address of the account, never to the one that was typed.
//   - Neither code nor link is stored: the database holds a random seed, of which both are made with a key.
//   - An email waits in the database until the mail server has taken it, whatever becomes of the server that was asked for
//     it. It is tried five times within about two minutes and then given up: its code works no more and counts no more, and
//     the page says so. Where a server dies just after it has handed an email over, the email is sent twice, with the same
//     code.
//   - Networks take turns: the emails that one network asks for wait behind each other.
//   - Users come one at a time, or many by a file or a batch, all of them or none. Those are compared with what is stored under
//     a lock, and written with their addresses and their entries of the audit log; addresses may go from one to another.
//   - A session of the account pages lasts 30 minutes from its sign-in, whatever is done in it, or until the user signs
//     out. The database holds a hash of its secret.
//   - Deleting a user ends all connections and removes what is known of the user in one transaction. Every table that
//     holds something of a user refers to the user's row with "on delete cascade", and a test looks for what is left.
//     The audit log keeps what happened to the connections, under a hash of the user's random id: it must be able to
//     prove to a partner or a court when access began and ended, and only somebody who has kept the id can find the
//     entries. The counters of codes keep their keyed hash of the address for an hour. The id is never reused.
//   - The limits of emails in an hour and in a day are exact and sliding, over all servers.
//   - Guesses are bounded for each address, with or without an account, whatever the limits are: an attempt counts as failed
//     until somebody signs in. After 100 codes of that budget work no more, and its emails have the link alone, which nobody guesses:
//     so wrong codes lock nobody out. A browser in which the user has signed in before has a budget of its own, and a network that
//     has not asked for an address within a day gets its first email: so those who ask for many do not lock the user out either.
//   - Opening a link changes nothing. It works for its own sign-in and no other, and so in the one browser that has it.
//
// The package never logs an address or a code, and never decides what a signed-in user may do.
package account
