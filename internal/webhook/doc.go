// Package webhook sends partners the events of specification section 6: a connection ended, or activity changed. It owns
// each client's endpoint, the log of events and delivery attempts, signing, delivery and replay.
//
// # The life of an event
//
// Whoever changes a connection inserts the event's row in the same statement or transaction. The statements that write
// activity note its changes, and [Webhooks.Run] merges them into one event per connection when the window is over. Servers take
// turns to put new events into the queue. A server leases events that are due there, sends them, and records each attempt,
// the event's next state and the end of the lease in one statement.
//
// # Invariants
//
//   - An event is delivered at least once, always with the same webhook-id and body, whatever happens to servers and
//     database. A change that was rolled back has no event.
//   - A lease outlasts every attempt. A server that dies loses its leases, and another server sends those events.
//   - A server has a bounded number of attempts to one client in flight, so that a receiver that hangs delays no other
//     client's events.
//   - Addresses are checked when they are dialed, after DNS: nothing inside the operator's networks is reached unless the
//     operator allowed it. Redirects and proxies are not followed, certificates are verified, and a response is read up
//     to a limit of time and size.
//   - Signing secrets are sealed in the database and opened only to sign. The log holds no secret, URL, body or response.
//
// It never waits inside the transactions of others, and it decides nothing about connections.
package webhook
