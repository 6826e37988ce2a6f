package alerts

// Counts returns the most counts that are kept of a counter.
func (a *Alerts) Counts() (most int) {
	for _, counters := range a.readings.counters {
		for _, c := range counters {
			most = max(most, len(c.grown))
		}
	}
	return most
}
