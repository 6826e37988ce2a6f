package audit

import (
	"time"
)

// For tests of the package's own parts.
var (
	Defuse = defuse
	Cells  = Event.cells
)

// Bound makes pages and files of small parts, so that few entries are many.
func (l *Log) Bound(slice, page, file int) {
	l.bounds.slice, l.bounds.page, l.bounds.file = slice, page, file
}

// Settle bounds how long a list waits for transactions that may add entries.
func (l *Log) Settle(limit time.Duration) { l.bounds.settle = limit }

// Frequent are the actors and actions that the indexes of actors and actions leave out.
var Frequent = map[string][]string{"audit_log_rare_actor": frequentActors, "audit_log_rare_action": frequentActions}
