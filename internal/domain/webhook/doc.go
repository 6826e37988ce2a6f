// Package webhook sends partners the events of specification section 6: a connection ended, or activity changed. It owns
// each client's endpoint, the log of events and delivery attempts, signing, delivery and replay.
//
// # The life of an event
//
// The statement or transaction that ends a connection also inserts the event's row. The statements that write activity record
// their changes, and [Webhooks.Run] merges these into one event per connection when the window is over. A server asks
// for events that are due, leases them, sends them, and records each attempt, the event's next state and the end of the
// lease in one statement. All rows of an event are where its user is, so an attempt needs one node of a cluster.
//
// # Invariants
//
//   - A server without work takes no lock and writes nothing (TestIdlePollWritesNothing). An event leaves at once if its process calls
//     [Webhooks.Wake] (TestWake). A look costs what there is to send, not what waits (TestLookCostsWhatIsDue).
//   - Of two servers that find the same work at the same time one does it (TestClaimOfTwoServers, TestMergeOfTwoServers).
//   - Nothing is sent to a paused webhook, whose events cost a look one step of an index (TestPause, TestLookCostsWhatIsDue).
//   - Events that programs of 1.0.0 queued are sent, until 1.3.0 (TestQueueOfOlderPrograms).
//   - Every attempt to deliver an event has the same webhook-id and body (TestSchedule).
//   - An event whose server was killed is sent by another one when the lease ends (TestLeaseOfAServerThatWasKilled).
//   - A leased event is not leased again before its lease ends, which outlasts every attempt (TestClaim).
//   - A server has a bounded number of attempts to one client in flight, so that a hanging receiver delays no other client's events
//     (TestBurstWithHangingReceivers).
//   - Addresses are checked when they are dialed, after DNS, so that an event reaches nothing inside the operator's networks that the
//     operator did not allow (TestAddressesThatAreRefused).
//   - Redirects are not followed, and a response is read up to a limit of time and size (TestAnswers).
//   - Signing secrets are sealed in the database and opened only to sign. The log holds no secret, URL, body or response
//     (TestLogHoldsNothingSensitive).
//
// This package never waits inside the transactions of other domains, and decides nothing about connections.
package webhook
