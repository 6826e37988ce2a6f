// Package client owns the registrations of partner companies: who they are, where their users return to, what they
// may ask for, how fast they may read, and the secret that authenticates their backends (specification sections 1 and
// 5.1).
//
// # Invariants
//
//   - A client has exactly one callback, an exact HTTPS address ([ValidateCallback]).
//   - A client's secret is shown once, when it is made. The database holds only its hash.
//   - A replaced secret stops working at once.
//   - An offboarded client never comes back.
package client
