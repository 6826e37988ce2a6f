package wait

import (
	"time"

	"connect-svc/internal/foundation/work"
)

// Patient are limits that nothing reaches on a busy machine, in the order of [work.DefaultLimits]: what is asked for an answer gives up
// before the answer does. An email leaves sooner than it would, because a test waits for it.
var Patient = work.Limits{
	Read:  Limit + 2*step,
	Act:   Limit + 3*step,
	Batch: Limit + 4*step,

	Head:    Limit,
	Request: Limit + 2*step,
	Body:    Limit,

	Statement:       Limit + step,
	Cancel:          Limit,
	IdleTransaction: 2 * Limit,

	Recognize:    Limit,
	Limiter:      Limit + step,
	Replica:      Limit,
	ReplicaCheck: Limit,
	ReplicaLag:   Limit,

	Mail:      Limit + step,
	MailDelay: 20 * time.Millisecond,

	Claim:    Limit,
	Webhook:  Limit,
	MailSend: Limit,

	Drain: Limit,
	Leave: Limit,
	Stop:  Limit + step,

	Check:    Limit + 2*step,
	Database: Limit,
	Partner:  2 * Limit,

	Count:  2 * Limit,
	Search: Limit,
	Settle: Limit,

	Probe:  Limit + step,
	Facts:  Limit + step,
	Scrape: Limit + step,
}

const step = 10 * time.Second
