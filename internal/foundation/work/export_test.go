package work

// Len is how many keys somebody has or wants.
func (l *Locks[Key]) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.keys)
}
