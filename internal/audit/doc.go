// Package audit reads the audit log: what happened to clients, users and connections, who did it, and when. It writes
// what is noted of operators beside their acts: who took the log away, and that somebody tried to sign in to the console. It deletes
// what is older than the operator keeps it.
//
// # Invariants
//
//   - The statement or transaction of the domain that makes a change writes its event (sql/oauth, sql/client, sql/account,
//     sql/webhook, sql/activity, sql/operators). So no change is missing, and none is logged that was rolled back.
//   - No statement changes an event.
//   - An event holds no address, no secret and no activity. It names a user by the random user id, also when the user has
//     been deleted, so that the log stays complete until the retention is over.
//   - What somebody without a credential can cause is noted once a minute for each network, in bounded memory.
//   - The end of a connection is logged once. A refresh is not.
package audit
