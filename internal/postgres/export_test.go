package postgres

import "time"

// SetPatience is how long a transaction may take before another one runs in its place.
func (t *Together) SetPatience(d time.Duration) { t.patience = d }

// Transactions is how many run at one time.
func (t *Together) Transactions() int { return t.most }

// Waiting is how many statements have not been taken.
func (t *Together) Waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting)
}
