// Package webhook tells partners that a connection ended or that activity changed (specification section 6): where a
// client wants its events, the log of events and tries, signing, delivery, replay.
//
// The life of an event. Whoever changes a connection writes the event's row in the same statement or transaction; a
// trigger adds a job of River (https://riverqueue.com) with it. Changes of activity are noted by triggers, too, and
// merged to one event a connection by [Webhooks.Run] when the window is over. A job carries one event until that is
// settled: it loads the event, sends it, and records the try and what becomes of the event in one statement; between
// tries it sleeps in the database.
//
// What must always hold:
//
//   - An event is delivered at least once, always with the same webhook-id and body, however servers and database end:
//     what a killed server was working on is found by another one within two minutes. What was rolled back has no event.
//   - One client's receiver never uses more than its share of the senders of a server, so that one which hangs delays
//     nobody else's events.
//   - An address is checked when it is dialed, after DNS: nothing inside the operator's networks is reached unless it
//     was allowed. Redirects and proxies are not followed, certificates are verified, and no answer is read beyond 8 KB
//     or five seconds.
//   - Signing secrets lie sealed in the database and are opened to sign. No secret, URL, body or answer is in a log.
//
// It never waits inside the transactions of others, and it decides nothing about connections.
package webhook
