package activity

// Len is the number of rides.
func (p Page) Len() int { return len(p.rows) }
