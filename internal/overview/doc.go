// Package overview is what an operator wants to see of the service as a whole: which servers there are, how large the database is
// and how fast it grows, and the facts that the console puts on one page.
//
// # Invariants
//
//   - Each server says regularly that it is there, and what alerts fire on it. One that stops takes its row away; one that was
//     killed is shown as lost, for a day.
//   - Nothing depends on any of it: a server whose row cannot be written serves as before.
//   - No credential, no address and nothing of a user is in it.
package overview
