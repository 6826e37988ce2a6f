//go:build faults

package storm

import (
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// overlap is how long a replaced secret works beside the new one.
const overlap = 4 * time.Second

// unsure is by how much a statement may be wrong about a clock that jumps: it has the time that the server expected before it waited.
const unsure = 5 * time.Second

// secretLedger has the rotations of one client's secret: the former one works for the overlap, the new one at once, and older ones never.
type secretLedger struct {
	mu        sync.Mutex
	rotations []rotation
	jumps     []int64      // when the clock jumped
	checked   map[bool]int // uses that had to be right, or wrong
}

// rotation gave a secret, unless it had no answer.
type rotation struct {
	secret    string
	call, end int64
}

func (r rotation) acked() bool { return r.secret != "" }

func newSecretLedger(p *partner) *secretLedger {
	return &secretLedger{rotations: []rotation{{secret: p.secret}}, checked: map[bool]int{}}
}

// jumped reports whether the clock was wrong for an act, or may have been: its statement may have waited.
func (l *secretLedger) jumped(call, end int64) bool {
	return slices.ContainsFunc(l.jumps, func(at int64) bool { return at < end && at > call-landing.Nanoseconds() })
}

// rotate asks until the new secret is known: an answer that is lost takes its secret with it.
func (s *storm) rotate(chance *rand.Rand) {
	await(s.stop, between(chance, 2, 8))
	for s.stop.Err() == nil {
		acknowledged := s.audit.ask("client.secret_replaced", nobody, s.turning.id)
		s.secrets.mu.Lock()
		n := len(s.secrets.rotations)
		s.secrets.rotations = append(s.secrets.rotations, rotation{call: s.now(), end: math.MaxInt64})
		s.secrets.mu.Unlock()
		got := s.operate("rotate secret", http.MethodPost, "/clients/"+s.turning.id.String()+"/secret", map[string]any{"overlap_seconds": int(overlap.Seconds())})
		var is struct {
			Secret string `json:"client_secret"`
		}
		if got.status == http.StatusOK && got.json(&is) == nil {
			acknowledged()
			s.secrets.mu.Lock()
			s.secrets.rotations[n].secret, s.secrets.rotations[n].end = is.Secret, s.now()
			s.secrets.mu.Unlock()
			return
		}
		if !got.unknown() {
			s.Errorf("the rotation of a secret is answered %d", got.status)
			return
		}
		await(s.stop, 200*time.Millisecond)
	}
}

// present uses one of the last secrets, with an unknown token to revoke, which changes nothing.
func (s *storm) present(chance *rand.Rand) {
	s.secrets.mu.Lock()
	n := max(0, len(s.secrets.rotations)-1-chance.IntN(4))
	one := s.secrets.rotations[n]
	s.secrets.mu.Unlock()
	if one.acked() {
		call := s.now()
		got := s.act("authenticate", &partner{s.turning.id, one.secret}, http.MethodPost, "/oauth/revoke", url.Values{"token": {"none"}})
		if end := s.now(); got.status == http.StatusOK || got.status == http.StatusUnauthorized {
			s.holdSecret(n, call, end, got.status == http.StatusOK)
		} else if !got.unknown() {
			s.Errorf("a revocation of an unknown token is answered %d", got.status)
		}
	}
	await(s.stop, between(chance, 0.05, 0.3))
}

// holdSecret decides whether the secret had to be right or wrong between call and end.
func (s *storm) holdSecret(n int, call, end int64, right bool) {
	s.secrets.mu.Lock()
	defer s.secrets.mu.Unlock()
	from, until := s.secrets.rotations[n].end, int64(math.MaxInt64) // it surely works
	dead := int64(math.MaxInt64)                                    // it surely does not from then on
	acked := 0
	for i, other := range s.secrets.rotations {
		switch {
		case i < n && !other.acked():
			if late := other.call + landing.Nanoseconds(); late > from { // it may replace this secret yet
				from = max(from, late)
			}
		case i == n+1:
			until = min(until, other.call+overlap.Nanoseconds())
		case i > n+1:
			until = min(until, other.call)
		}
		if i > n && other.acked() {
			if acked++; acked == 1 {
				dead = other.end + overlap.Nanoseconds()
				if s.secrets.jumped(other.call, other.end) {
					dead += unsure.Nanoseconds()
				}
			} else {
				dead = min(dead, other.end)
			}
		}
	}
	if s.secrets.jumped(call, end) {
		until, dead = until-unsure.Nanoseconds(), dead+min(unsure.Nanoseconds(), math.MaxInt64-dead)
	}
	must, mustNot := call >= from && end <= until, call > dead
	if must && !right || mustNot && right {
		s.Errorf("at %s a secret is right: %v; it was given at %s, and overlaps until %s, or until %s at the latest",
			time.Duration(call), right, time.Duration(from), time.Duration(until), time.Duration(dead))
	}
	if must || mustNot {
		s.secrets.checked[right]++
	}
}

func (s *storm) checkSecrets() {
	s.sum.fact("%d rotations of a secret: %d uses had to work, %d had to fail", len(s.secrets.rotations)-1, s.secrets.checked[true], s.secrets.checked[false])
}
