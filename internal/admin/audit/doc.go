// Package audit reads the audit log: what happened to clients, users and connections, who did it, and when. It records the exports of
// the log and failed sign-ins to the console, and deletes events at the end of the retention.
//
// The statement or transaction that makes a change writes its event (sql/oauth, sql/client, sql/account, sql/webhook, sql/activity,
// sql/operators). So no change is missing, and no rolled-back change is logged. No statement changes an event.
//
// # Invariants
//
//   - A refused change has no event (TestRefusedChangesAreNotNoted).
//   - An event names the operator who acted (TestActor).
//   - An event holds no address, no secret and no activity. It names a user by the random user id, also after the user was deleted, so
//     that the log stays complete until the retention ends (TestList).
//   - Events that anyone could cause without a credential are recorded once a minute for each network, in bounded memory
//     (TestFailedSignInsAreBounded).
//   - A page of a search takes a bounded time, even if hardly any event matches (TestSearchIsBounded).
//
// The end of a connection is logged once; refreshes are not logged.
package audit
