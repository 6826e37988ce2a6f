// Package audit reads the audit log: what happened to clients, users and connections, who did it, and when.
//
// It writes nothing. Each event is written by the statement or transaction of the domain that makes the change
// (sql/oauth, sql/client, sql/account, sql/webhook), so that no change is missing and none is noted that was rolled back.
// The database refuses to change or delete an event.
//
// What must always hold: an event holds nothing personal, no secret and no activity. A user is named by a hash of the
// random id, which says nothing to who does not have the id, so that the log stays whole when a user is deleted: the
// service itself keeps no id of a deleted user, and who has kept one, the user or a court, can still ask.
// Refreshes are not in it; what ends a connection is.
package audit
