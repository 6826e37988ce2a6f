// Package audit reads the audit log: what happened to clients, users and connections, who did it, and when. It writes
// nothing.
//
// # Invariants
//
//   - The statement or transaction of the domain that makes a change writes its event (sql/oauth, sql/client, sql/account,
//     sql/webhook). So no change is missing, and none is logged that was rolled back.
//   - The database refuses to change or delete an event.
//   - An event holds nothing personal, no secret and no activity. It names a user by a hash of the random user id, so that
//     the log stays complete when the user is deleted. The service keeps no id of a deleted user; whoever kept one, such as
//     the user or a court, can still search by it.
//   - The end of a connection is logged. A refresh is not.
package audit
