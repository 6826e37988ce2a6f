package account

import (
	"context"
	"slices"
	"time"

	accountdb "connect-svc/gen/db/account"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/timezone"
)

// The rule of emails and wrong codes: pure functions of what the database stores. It bounds the guesses at codes of one address, with or
// without an account (docs/threat-model.md).

const (
	hour = time.Hour
	day  = 24 * time.Hour

	// daily is the factor from the limit of an hour to that of a day.
	daily = 4
)

// CodeLifetime is how long a code and its link work.
const CodeLifetime = 10 * time.Minute

// Attempts that a code has.
const Attempts = 5

// maxFailed is how many attempts at codes a budget has until a sign-in with it succeeds, or failedLifetime passes without an email (NIST
// SP 800-63B, section 3.2.2).
const (
	maxFailed      = 100
	failedLifetime = 30 * day
)

// attemptsLeft returns how many attempts a code has after attempts at it and failed attempts of its budget.
func attemptsLeft(attempts, failed int) int { return max(0, min(Attempts-attempts, maxFailed-failed)) }

// codesWork reports whether the codes of a budget are still compared.
func codesWork(failed int) bool { return failed < maxFailed }

// limit is how many emails may be sent for its key in an hour and in a day, or 0 for no limit.
type limit struct {
	key             [32]byte
	perHour, perDay int
	name            string // for support
}

// counter is a limit with the times of its emails, as far back as the limit looks.
type counter struct {
	limit
	emails []time.Time
	stored []time.Time // the emails as they were read
}

// next returns when the limit admits the next email. The zero time is always in the past.
func (c counter) next() (next time.Time) {
	emails := slices.SortedFunc(slices.Values(c.emails), time.Time.Compare)
	for _, window := range []struct {
		length time.Duration
		most   int
	}{{hour, c.perHour}, {day, c.perDay}} {
		if window.most > 0 && len(emails) >= window.most {
			if end := emails[len(emails)-window.most].Add(window.length); end.After(next) {
				next = end
			}
		}
	}
	return next
}

// recent returns the emails that count towards the limit at a time.
func (c counter) recent(now time.Time) []time.Time {
	var window time.Duration
	switch {
	case c.perDay > 0:
		window = day
	case c.perHour > 0:
		window = hour
	}
	return slices.DeleteFunc(slices.Clone(c.emails), func(at time.Time) bool { return window == 0 || !at.After(now.Add(-window)) })
}

// add returns the counter with one more email. A counter without a limit stays empty.
func (c counter) add(now time.Time) counter {
	c.emails = c.recent(now)
	if c.perHour > 0 || c.perDay > 0 {
		c.emails = append(c.emails, now)
	}
	return c
}

// admit decides on one more email for an address. The last of the counters is the budget, the one before it, if any, counts the emails of
// the network for the address. firsts is a second budget of the address, for the first email of a network within a day. It counts only
// emails that the budget refuses, so that strangers in a few networks cannot take the last email that the owner may have.
//
// It returns the counters to store. There are none if the email is refused; next is then when it would be admitted, by the budget or as a
// first email, whichever is sooner.
func admit(counters []counter, firsts counter, now time.Time) (changed []counter, next time.Time) {
	others, last := counters[:len(counters)-1], counters[len(counters)-1]
	if next = last.next(); next.After(now) && len(others) > 0 {
		once := counter{limit: limit{perDay: 1}, emails: others[len(others)-1].emails}
		if first := nextOf([]counter{firsts, once}); first.Before(next) {
			last, next = firsts, first
		}
	}
	if next = slices.MaxFunc([]time.Time{next, nextOf(others)}, time.Time.Compare); next.After(now) {
		return nil, next
	}
	for _, c := range others {
		if c.perHour > 0 || c.perDay > 0 {
			changed = append(changed, c.add(now))
		}
	}
	return append(changed, last.add(now)), time.Time{}
}

// nextOf returns when all counters admit the next email.
func nextOf(counters []counter) time.Time { return latest(counters).next() }

// latest returns the counter that admits the next email last.
func latest(counters []counter) (last counter) {
	for _, c := range counters {
		if c.next().After(last.next()) {
			last = c
		}
	}
	return last
}

// UnknownTimezones returns the names of time zones that neither the program nor this machine knows, and how many users have them. A user's
// day is that of UTC then. It reads all users.
func UnknownTimezones(ctx context.Context, pool *postgres.Pool) (names []string, users int64, err error) {
	counts, err := accountdb.New(pool).CountTimezones(ctx)
	for _, count := range counts {
		if !timezone.IsKnown(count.Timezone) {
			names, users = append(names, count.Timezone), users+count.Users
		}
	}
	return names, users, postgres.Wrap("account: count time zones", err)
}
