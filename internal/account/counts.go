package account

import (
	"errors"
	"sync/atomic"
)

// Counts are what happened since the process started, for the operator's metrics.
type Counts struct {
	CodesSent    uint64 // codes made; whether the address has an account makes no difference
	CodesLimited uint64 // codes refused because of the limits of an hour
	CodesRight   uint64
	CodesWrong   uint64
	CodesLocked  uint64 // tries after the fifth
	CodesExpired uint64

	LettersWaiting int // now; those to nobody among them
	LettersSent    uint64
	LettersFailed  uint64
}

// Counts returns the counts of this process up to now.
func (a *Accounts) Counts() Counts {
	return Counts{
		CodesSent:      a.counts.codesSent.Load(),
		CodesLimited:   a.counts.codesLimited.Load(),
		CodesRight:     a.counts.codesRight.Load(),
		CodesWrong:     a.counts.codesWrong.Load(),
		CodesLocked:    a.counts.codesLocked.Load(),
		CodesExpired:   a.counts.codesExpired.Load(),
		LettersWaiting: len(a.outbox.queue),
		LettersSent:    a.outbox.sent.Load(),
		LettersFailed:  a.outbox.failed.Load(),
	}
}

type counts struct {
	codesSent, codesLimited, codesRight, codesWrong, codesLocked, codesExpired atomic.Uint64
}

// sent notes how SendCode ended.
func (c *counts) sent(err error) {
	switch {
	case err == nil:
		c.codesSent.Add(1)
	case errors.Is(err, ErrTooManyCodes):
		c.codesLimited.Add(1)
	}
}

// verified notes how VerifyCode ended.
func (c *counts) verified(err error) {
	var wrong *WrongCodeError
	switch {
	case err == nil:
		c.codesRight.Add(1)
	case errors.As(err, &wrong):
		c.codesWrong.Add(1)
	case errors.Is(err, ErrCodeSpent):
		c.codesLocked.Add(1)
	case errors.Is(err, ErrCodeExpired):
		c.codesExpired.Add(1)
	}
}
