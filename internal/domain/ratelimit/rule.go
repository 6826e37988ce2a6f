package ratelimit

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// LeaseLifetime is the time after which a lease ends by itself. A read must end sooner.
const LeaseLifetime = 30 * time.Second

// Policy of one client. All three are 1 or more.
type Policy struct {
	RequestsPerMinute int // sustained refill of the bucket, at most 1,000,000
	Burst             int // capacity of the bucket, at most 1,000,000
	ConcurrentReads   int // leases at one time, at most 10,000
}

// Reason why a request was refused.
type Reason string

// The reasons. An admitted request has none.
const (
	ReasonRate        Reason = "rate"        // the bucket holds less than one request
	ReasonConcurrency Reason = "concurrency" // as many reads run as the policy allows
)

// Decision about one request, with the values of its response's headers.
type Decision struct {
	Allowed bool
	Reason  Reason // empty when allowed

	Limit        int // RateLimit-Limit: requests a minute
	Remaining    int // RateLimit-Remaining: whole requests that the bucket holds after this one
	ResetSeconds int // RateLimit-Reset: seconds until the bucket holds a request, at least 1

	// RetryAfterSeconds is the Retry-After of a refusal, at least 1, and 0 when allowed. By then the bucket holds a request, unless
	// another request took it.
	RetryAfterSeconds int

	client *client
	lease  lease // zero for a refusal
}

// request is the cost of a request in units of credit. A unit is a sixty-millionth of a request, so that a microsecond adds as many
// units as the policy has requests a minute, without rounding.
const request = 60_000_000

// state of a client. The zero value is that of a new client: a full bucket, and no leases.
type state struct {
	Credit int64    `json:"credit"`
	At     int64    `json:"at"` // the time of Credit, in microseconds since 1970
	Leases []leases `json:"leases,omitempty"`
}

// lease of a read. All leases of a client differ, so that releasing one twice, after an answer of the store that was lost, releases no other.
type lease struct {
	End    int64  `json:"end"`    // in microseconds since 1970
	Server uint32 `json:"server"` // that gave it
}

// leases are a lease, or (until 1.3.0) several equal ones of a server of 1.0.0. A state has them in the order of their ends.
type leases struct {
	lease
	Count int `json:"count"`
}

// admit decides n requests of a client at this server, in order, at one time.
func (s state) admit(policy Policy, now time.Time, n int, server uint32) (after state, decisions []Decision) {
	s = s.at(policy, now)
	leased, given := s.held(), lease{s.At + LeaseLifetime.Microseconds(), server}
	if last := len(s.Leases) - 1; last >= 0 {
		given.End = max(given.End, s.Leases[last].End+1)
	}
	s.Leases = slices.Clip(s.Leases)
	decisions = make([]Decision, n)
	ahead := s.At - now.UnixMicro() // the bucket fills from s.At on
	for i := range decisions {
		switch {
		case s.Credit < request:
			decisions[i].Reason = ReasonRate
		case leased >= policy.ConcurrentReads:
			s.Credit -= request
			decisions[i].Reason = ReasonConcurrency
		default:
			s.Credit -= request
			s.Leases = append(s.Leases, leases{given, 1})
			decisions[i].Allowed, decisions[i].lease = true, given
			leased++
			given.End++
		}
		decisions[i].fill(policy, s.Credit, ahead)
	}
	return s, decisions
}

func (s state) held() (n int) {
	for _, l := range s.Leases {
		n += l.Count
	}
	return n
}

// sure returns how many decisions are final. A refusal for concurrency is not if another server has a lease, whose release may wait, unless
// it is one of the first n.
func (s state) sure(decisions []Decision, n int, server uint32) int {
	doubtful := slices.IndexFunc(decisions[n:], func(d Decision) bool { return d.Reason == ReasonConcurrency })
	if doubtful < 0 || !slices.ContainsFunc(s.Leases, func(l leases) bool { return l.Server != server }) {
		return len(decisions)
	}
	return n + doubtful
}

// outOfOrder is more than the time between the authentication of a request and its decision.
const outOfOrder = 5 * time.Second

// isAhead reports whether the state is of a time to come: later than a request that was overtaken, and than a bucket that was spent before
// the clock was set back takes to fill. The clock was wrong then. No state is ahead of the zero time, which is that of releases alone.
func (s state) isAhead(policy Policy, now time.Time) bool {
	burst := time.Duration(policy.Burst) * time.Minute / time.Duration(policy.RequestsPerMinute)
	return !now.IsZero() && s.At > now.Add(max(burst, outOfOrder)).UnixMicro()
}

// at returns the state at a later time: refilled up to the burst, and without the leases that have ended. An earlier time changes
// nothing, unless the state is ahead of it: then the credit counts from that time on, and all leases have ended.
func (s state) at(policy Policy, now time.Time) state {
	perMicrosecond, full := int64(policy.RequestsPerMinute), int64(policy.Burst)*request
	if s.isAhead(policy, now) {
		s.At, s.Leases = now.UnixMicro(), nil
	}
	instant := max(now.UnixMicro(), s.At)
	if elapsed := instant - s.At; elapsed > (full-s.Credit)/perMicrosecond {
		s.Credit = full
	} else {
		s.Credit += elapsed * perMicrosecond
	}
	s.At = instant
	running := slices.IndexFunc(s.Leases, func(l leases) bool { return l.End > instant })
	if running < 0 {
		running = len(s.Leases)
	}
	s.Leases = s.Leases[running:]
	return s
}

// release ends the given leases, if they are in the state.
func (s state) release(ended []lease) state {
	s.Leases = slices.Clone(s.Leases)
	for _, lease := range ended {
		if i := slices.IndexFunc(s.Leases, func(l leases) bool { return l.lease == lease }); i >= 0 {
			if s.Leases[i].Count--; s.Leases[i].Count == 0 {
				s.Leases = slices.Delete(s.Leases, i, i+1)
			}
		}
	}
	return s
}

// same reports whether the states differ only in time.
func (s state) same(other state) bool {
	return s.Credit == other.Credit && slices.Equal(s.Leases, other.Leases)
}

// fullAfter returns the time until the bucket is full and no lease runs. Until then the state must be stored.
func (s state) fullAfter(policy Policy) time.Duration {
	until := (int64(policy.Burst)*request - s.Credit) / int64(policy.RequestsPerMinute)
	if last := len(s.Leases) - 1; last >= 0 {
		until = max(until, s.Leases[last].End-s.At)
	}
	return time.Duration(until+1) * time.Microsecond
}

// fill sets the values of the response's headers from the credit of the bucket, whose time is ahead microseconds after the request's.
func (d *Decision) fill(policy Policy, credit, ahead int64) {
	d.Limit = policy.RequestsPerMinute
	d.Remaining = int(credit / request)
	d.ResetSeconds = 1
	if missing := request - credit; missing > 0 {
		const second = 1_000_000
		perSecond := int64(policy.RequestsPerMinute) * second
		d.ResetSeconds = int((missing + ahead*int64(policy.RequestsPerMinute) + perSecond - 1) / perSecond)
	}
	switch d.Reason {
	case ReasonRate:
		d.RetryAfterSeconds = d.ResetSeconds
	case ReasonConcurrency:
		d.RetryAfterSeconds = 1 // specification section 8
	}
}

// version of the texts in the store. All versions have the fields version and at. Servers of two releases run side by side, and the
// older one must read what the newer one writes. So it takes two releases to introduce a version: the first reads it, and the second
// writes it.
const version = 1

// versioned is a state as the store has it.
type versioned struct {
	Version int `json:"version"`
	state
}

// parse returns the state of a text. The empty text is that of a new client. A state of another version cannot be known: parse returns
// an error until the bucket is full and no lease runs, whatever the state says. If it is ahead of now, because the clock was wrong, the
// bucket is empty now.
func parse(text string, policy Policy, now time.Time) (state, error) {
	if text == "" {
		return state{}, nil
	}
	var s versioned
	if err := json.Unmarshal([]byte(text), &s); err == nil && s.Version == version {
		return s.state, nil
	}
	var head struct{ Version, At int64 } // the other fields may have other types
	if err := json.Unmarshal([]byte(text), &head); err != nil {
		return state{}, err
	}
	empty := state{At: head.At}
	if empty.isAhead(policy, now) {
		return state{At: now.UnixMicro()}, nil
	}
	if over := max(empty.fullAfter(policy), LeaseLifetime); now.Before(time.UnixMicro(head.At).Add(over)) {
		return state{}, fmt.Errorf("the client's state has version %d, which this program does not read", head.Version)
	}
	return state{}, nil
}
