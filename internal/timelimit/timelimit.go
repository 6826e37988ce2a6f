// Package timelimit has how long the service waits in real time before it answers that it could not, or answers with less. It owns
// the values and knows nothing of what they limit. No setting leads here: the service runs with [Default]. Tests replace them,
// because on a busy machine every limit runs out at some time, and the answer would tell of the machine alone.
//
// What makes no answer differ, such as how often something is looked at, is a constant where it is used.
package timelimit

import "time"

// Limits are what a part of the service may take. The zero value stands for [Default], see [Limits.OrDefault].
type Limits struct {
	// Reads of the partner API are answered within 2 s, everything else within 5 s, and the operator's batches within 30 s
	// (decisions, section 5). What is missing here is for cancelling a statement and writing the response.
	Read  time.Duration
	Act   time.Duration
	Batch time.Duration

	// Body is how long a large body waits until there is memory for it. Then the request is 503, with the body unread. What is left
	// of the server's time for reading a request is for sending it.
	Body time.Duration

	// Statement is what a statement of PostgreSQL may take that says nothing else in its transaction: it ends one that hangs, or
	// waits for a lock, before the time of its request is over.
	Statement time.Duration
	// Cancel is what PostgreSQL has to cancel a statement that is past its deadline. Then its connection is closed.
	Cancel time.Duration
	// IdleTransaction is how long a transaction may rest between two statements: it frees the locks of a server that vanished.
	IdleTransaction time.Duration
	// Recognize is how long a request that is malformed waits until it is known whose it is, which the log alone says.
	Recognize time.Duration
	// Limiter is what one question to the store of the rate limiter may take. Then the read is 503 (decisions, section 5).
	Limiter time.Duration
	// Replica is how long a read waits for a read replica before it asks the primary, and ReplicaCheck what finding out which
	// replicas are current may take: a replica that has not answered by then is left out.
	Replica      time.Duration
	ReplicaCheck time.Duration
	// ReplicaLag is how old the rows of a replica may be.
	ReplicaLag time.Duration

	// Mail is how long a page waits for the email with a code to leave before it says that the email has not left yet, and
	// MailDelay the time within which it leaves at a random instant.
	Mail      time.Duration
	MailDelay time.Duration

	// What a server takes in the background: leasing work, and ending leases (Claim), a request to a receiver of webhooks with its
	// response (Webhook), and an attempt to send an email with its statements, which is twice the time of the mail server's session
	// (MailSend).
	Claim    time.Duration
	Webhook  time.Duration
	MailSend time.Duration

	// A server that stops finishes the requests that are running, and the emails that are on their way, within Drain. What it writes
	// down at the end may take Leave. Then the process ends, within Stop in all.
	Drain time.Duration
	Leave time.Duration
	Stop  time.Duration

	// Check is what each check of `connect-svc check` may take, Database what an embedded PostgreSQL has to stop before it is killed,
	// and Partner how long the demo's example partner waits for an answer.
	Check    time.Duration
	Database time.Duration
	Partner  time.Duration

	// Count is what counting the connections of one client may take, and half of it that of all clients. Then the count is not
	// exact.
	Count time.Duration
	// Search is how long a page of the audit log goes on to look for entries that fit. Then it says how far it came.
	Search time.Duration
	// Settle is how long a page of the audit log, oldest first, waits for transactions that may still add entries to it. Then it
	// ends before these.
	Settle time.Duration

	// What the private listener asks the database for: whether the server is ready, which others there are and which alerts
	// fire on them (Probe), the facts of the service, each of which may be missing (Facts), and metrics (Scrape).
	Probe  time.Duration
	Facts  time.Duration
	Scrape time.Duration
}

// Default is what the service runs with.
var Default = Limits{
	Read:  1500 * time.Millisecond,
	Act:   4400 * time.Millisecond,
	Batch: 28 * time.Second,
	Body:  5 * time.Second,

	Statement:       4 * time.Second,
	Cancel:          150 * time.Millisecond,
	IdleTransaction: 30 * time.Second,

	Recognize:    time.Second,
	Limiter:      2 * time.Second,
	Replica:      800 * time.Millisecond,
	ReplicaCheck: time.Second,
	ReplicaLag:   5 * time.Second,

	Mail:      2 * time.Second,
	MailDelay: time.Second,

	Claim:    4 * time.Second,
	Webhook:  5 * time.Second,
	MailSend: 40 * time.Second,

	Drain: 10 * time.Second,
	Leave: time.Second,
	Stop:  14 * time.Second,

	Check:    10 * time.Second,
	Database: 10 * time.Second,
	Partner:  10 * time.Second, // a person is waiting

	Count:  2 * time.Second,
	Search: 60 * time.Millisecond,
	Settle: 250 * time.Millisecond,

	Probe:  2 * time.Second,
	Facts:  3 * time.Second,
	Scrape: 4 * time.Second,
}

// OrDefault are the limits, or [Default] if nothing was said.
func (l Limits) OrDefault() Limits {
	if l == (Limits{}) {
		return Default
	}
	return l
}
