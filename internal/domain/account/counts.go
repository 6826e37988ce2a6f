package account

import (
	"context"
	"errors"
	"time"
)

// CodeOutcomes are the keys of [Counts].Codes. A code was made (sent, with or without an account of the address) or refused because of the
// limits (limited). An attempt was accepted, rejected, made after the last one (locked) or made too late (expired).
var CodeOutcomes = []string{"sent", "limited", "accepted", "rejected", "locked", "expired"}

// Counts are the operator's metrics of this process since its start.
type Counts struct {
	Codes map[string]uint64 // by outcome

	EmailsSent    uint64 // with codes
	EmailsFailed  uint64 // given up, or refused by the mail server
	NoticesSent   uint64
	NoticesFailed uint64 // given up, or refused by the mail server

	MailRefusals uint64 // sessions that the mail server refused, and failed attempts to reach it
}

// Counts returns the counts of this process up to now.
func (a *Accounts) Counts() Counts {
	counts := Counts{
		Codes:         map[string]uint64{},
		EmailsSent:    a.outbox.sent.Load(),
		EmailsFailed:  a.outbox.failed.Load(),
		NoticesSent:   a.outbox.notices.sent.Load(),
		NoticesFailed: a.outbox.notices.failed.Load(),
		MailRefusals:  a.outbox.refusals.Load(),
	}
	for outcome, count := range a.codes {
		counts.Codes[outcome] = count.Load()
	}
	return counts
}

// MailTrouble returns why this server's last session with the mail server failed, without any address. It is empty if the session
// succeeded; used is false if there was none yet.
func (a *Accounts) MailTrouble() (trouble string, used bool) {
	if last := a.outbox.trouble.Load(); last != nil {
		return *last, true
	}
	return "", false
}

// EmailsWaiting returns how many emails wait in the database or are being sent, and the age of the oldest. It includes emails without a
// recipient, of addresses without an account. It is the same on every server.
func (a *Accounts) EmailsWaiting(ctx context.Context) (waiting int, oldest time.Duration, err error) {
	row, err := a.queries.CountCodeEmails(ctx)
	return int(row.Waiting), time.Duration(row.Oldest * float64(time.Second)), err
}

// count counts the outcome of SendCode or VerifyCode: done if err is nil. Malformed codes and other failures are not counted.
func (a *Accounts) count(done string, err error) {
	var wrong *WrongCodeError
	switch {
	case err == nil:
		a.codes[done].Add(1)
	case errors.Is(err, ErrTooManyCodes):
		a.codes["limited"].Add(1)
	case errors.As(err, &wrong):
		a.codes["rejected"].Add(1)
	case errors.Is(err, ErrCodeSpent):
		a.codes["locked"].Add(1)
	case errors.Is(err, ErrCodeExpired):
		a.codes["expired"].Add(1)
	}
}
