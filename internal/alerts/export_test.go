package alerts

// KeepAtMost has so many samples be kept at most. Call it before the first evaluation.
func (a *Alerts) KeepAtMost(samples int) { a.memory.most, a.memory.room = samples, samples }
