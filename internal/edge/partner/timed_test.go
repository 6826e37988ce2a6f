//go:build timed

package partner

import (
	"testing"

	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/wait"
)

// A request that has to wait is answered in its time: a read within two seconds, all else within five (decisions, section 5). One
// is measured at a time.
func TestTimedAnswers_5(t *testing.T) {
	for _, test := range blockedRequests {
		t.Run(test.name, func(t *testing.T) {
			lost := wait.Stalls()
			took := test.send(t, work.DefaultLimits)
			wait.InTime(t, "the answer", took, test.promised, lost())
		})
	}
}
