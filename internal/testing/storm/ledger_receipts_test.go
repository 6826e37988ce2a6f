//go:build faults

package storm

import (
	"math/rand/v2"
	"strings"

	"connect-svc/internal/testing/history"
)

// receiptLedger has users who are connected, and some of whom are disconnected, each by one caller: the user gets a receipt of what happened
// last, and none of what did not happen. Receipts of before may be dropped, because a later one says more.
type receiptLedger struct{ users []*receipted }

type receipted struct {
	connection    *connection
	begun, ended  int  // acts that were asked for
	live, unknown bool // after the last act
}

// Parts of the subjects of receipts.
const (
	begunReceipt = " can now see your activity"
	endedReceipt = " can no longer see your activity"
)

// pass is a user who connects a partner, and whom the partner may disconnect.
func (s *storm) pass(chance *rand.Rand) {
	defer await(s.stop, between(chance, 0.1, 0.8))
	u := s.newUser(s.stop)
	if u == nil {
		return
	}
	r := &receipted{connection: s.newConnection(u, s.steady)}
	for tries := 0; tries < 5 && s.stop.Err() == nil; tries++ {
		r.begun++
		if r.connection.connect(0); len(r.connection.tokens) > 0 {
			break
		}
	}
	if len(r.connection.tokens) == 0 { // it may be connected all the same
		r.unknown = true
	} else if r.live = true; chance.IntN(2) == 0 {
		r.ended++
		r.live = false
		if chance.IntN(2) == 0 {
			r.connection.disconnectByClient(0)
		} else {
			last, _ := r.connection.token(0)
			r.connection.revoke(0, history.Op{Act: history.RevokeRefresh, Version: last.version, Generation: last.generation}, last.refresh)
		}
		r.connection.mu.Lock()
		r.unknown = r.connection.doubt
		r.connection.mu.Unlock()
	}
	s.receipts.users = append(s.receipts.users, r)
}

func (s *storm) checkReceipts() {
	s.codes.mu.Lock()
	defer s.codes.mu.Unlock()
	begun, ended := 0, 0
	for _, r := range s.receipts.users {
		got := map[string]int{}
		for subject, n := range s.codes.of(r.connection.user.email).subjects {
			for _, part := range []string{begunReceipt, endedReceipt} {
				if strings.HasSuffix(subject, part) {
					got[part] += n
				}
			}
		}
		begun += got[begunReceipt]
		ended += got[endedReceipt]
		switch {
		case got[begunReceipt] > mostEmails*r.begun || got[endedReceipt] > mostEmails*r.ended:
			s.Errorf("a user got %d and %d receipts, of %d beginnings and %d ends", got[begunReceipt], got[endedReceipt], r.begun, r.ended)
		case r.unknown:
		case r.live && got[begunReceipt] == 0:
			s.Error("a user was not told that a partner sees the activity")
		case !r.live && got[endedReceipt] == 0:
			s.Error("a user was not told that a connection has ended")
		}
	}
	s.sum.fact("%d users with receipts: %d of a beginning, %d of an end", len(s.receipts.users), begun, ended)
}
