package alerts

// KeepAtMost limits the history to so many samples. Call it before the first evaluation.
func (a *Alerts) KeepAtMost(samples int) { a.history.most, a.history.room = samples, samples }
