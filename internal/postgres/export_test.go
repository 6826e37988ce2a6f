package postgres

// MaxWaiting is how many statements of one caller wait.
const MaxWaiting = maxWaiting

// Waiting is how many statements wait for a connection.
func (p *Pool) Waiting() int { return p.Turns().Waiting }
