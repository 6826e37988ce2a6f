// Package account owns the users, their sign-ins by one-time codes sent by email, and the sessions of the account pages. One file for each
// act; the rule of emails and wrong codes is in rule.go.
//
// # Terms
//
//   - A sign-in serves one purpose in one browser and has the id of that purpose: an authorization request, or the session of the account
//     pages that it starts.
//   - A code is six digits that prove access to the mailbox of an account's address.
//   - An attempt is the entry of a code, right or wrong.
//   - A link is in the same email as the code, and signs in in the browser that requested it.
//   - A budget is what emails and attempts count towards: that of an address, or that of a known browser.
//
// # Invariants
//
//   - A code works only for its own sign-in (TestSignIn4ACodeBelongsToOneSignIn), for 10 minutes (TestSignIn4TenMinutes) or until what it is for
//     ends (TestEmailSaysHowLong), and five attempts, also if the attempts are concurrent, because one statement spends them.
//     (TestSignIn4FiveAttemptsAtOnce)
//   - A new code replaces the old one. (TestTheNewestCodeIsSent) Somebody who enters an old one is told so, and spends no attempt. (TestOlderCode)
//   - Requests do not reveal whether an address has an account: with and without one the same statements run, the same rows remain, and the
//     caller gets the same result. (TestSignIn4UnknownAddress)
//   - Sending reveals nothing either: without an account it does the same work up to naming a recipient, and the page shows only what was
//     decided before that. (TestAnAddressWithoutAccountCausesTheSameWork)
//   - The log of sign-ins is the same with and without an account. No request waits for it, and none depends on it. (TestSignInLog,
//     TestSignInsDoNotNeedTheirLog)
//   - Neither code nor link is stored. Both are derived from a random seed with a key that the database does not have. (TestNoCodeIsStored)
//   - An email waits in the database until the mail server has taken it, even if the server that stored it dies. If that server dies right
//     after it has handed the email over, the email is sent twice, with the same code. (TestAnotherServerSendsTheEmail)
//   - An email is tried five times within about two minutes. Then its code neither works nor counts any more, and the page says so.
//     (TestAnEmailIsGivenUp)
//   - Notices, the emails without a code, wait in the database, too: the transaction that makes a change adds them (TestNotices). They delay no
//     code (TestNoticesDoNotDelayCodes), and are tried for a day. (TestANoticeOutlivesAnOutage)
//   - Receipts say how it is when they are sent (TestReceiptsOfConnections), once after an outage (TestOneReceiptAfterAnOutage). A user who signs
//     in with a browser that is not known gets one, except at first. (TestReceiptOfANewBrowser)
//   - The emails of one network wait behind each other, not before those of other networks. (TestANetworkWaitsBehindItself)
//   - A file or batch of users is written as a whole or not at all. Users in it may exchange addresses. (TestBulkAtOnce)
//   - A session of the account pages lasts 30 minutes from its sign-in, or until the user signs out. The database holds a hash of its secret.
//     (TestSession4ThirtyMinutes)
//   - The limits of emails in an hour and in a day are exact and sliding (TestLimitIsExact), over all servers. (TestSignIn4LimitsAtOnce)
//   - Guesses at the codes of an address are bounded, with and without an account: an attempt counts as failed until a sign-in succeeds, and
//     after 100 failed ones no code of the budget works. (TestGuessesAreBounded)
//   - Wrong codes lock nobody out: the links of a budget work always. (TestCodesThatWorkNoMore)
//   - A browser in which the user has signed in before has a budget of its own. (TestAKnownBrowserHasItsOwnBudget)
//   - Strangers in a few networks cannot take the last email of an address. (TestNobodyTakesTheLastEmail)
//   - Opening a link changes nothing. A link works only for its own sign-in, so only in one browser. (TestLink)
//   - The id of a deleted user is not used again. (TestIDOfADeletedUser)
//
// The deletion of a user ends all connections and removes what is stored about the user, in one transaction. Every table with rows of a user
// references the user's row with "on delete cascade", and operator.TestDeleteUser searches all tables for remains. The audit log keeps what
// happened to the connections under the user's id, which is random: it proves when access began and ended, and only someone who knows the
// id can find the entries. The counters of codes keep a keyed hash of the address for a day, or 30 days after failed attempts.
// The log of sign-ins keeps another one for seven days.
//
// The package never logs an address or a code, and does not decide what a signed-in user may do.
package account
