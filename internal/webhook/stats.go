package webhook

import "time"

// Stats is how the delivery to a client goes.
type Stats struct {
	Client  string        // its name; clients of one name are one
	Pending int64         // events in the database that are to be delivered
	Oldest  time.Duration // age of the oldest of them

	// Since this server started, and by it:
	Delivered      uint64 // events that their receiver accepted
	Failed         uint64 // events that were given up
	FailedAttempts uint64
}

// Queue is how delivery to all clients goes, over all servers.
type Queue struct {
	Waiting int64         // events that are to be delivered
	Due     int64         // those of them that are to be sent now, and that no server is sending
	Oldest  time.Duration // age of the oldest that waits; 0 where there is none
	Failed  int64         // given up within the last 24 hours; 10,000 stands for that many or more
	Ages    []Age         // of those that wait, youngest first
}

// Age is how many events have waited for UpTo at most, and longer than those of the age before. An UpTo of 0 is any time.
type Age struct {
	UpTo  time.Duration
	Count int64
}

// count changes what this server counted of a client.
func (w *Webhooks) count(client string, change func(*Stats)) {
	w.statsMu.Lock()
	defer w.statsMu.Unlock()
	s := w.stats[client]
	s.Client = client
	change(&s)
	w.stats[client] = s
}
