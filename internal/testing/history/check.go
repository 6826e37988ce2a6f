package history

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Verdict on a history.
type Verdict struct {
	Legal   bool
	Decided bool // false: there was not enough time
	info    porcupine.LinearizationInfo
}

// Check looks for an order that explains the acts. The [Op.Return] of an unknown one does not matter.
func Check(ops []Op, within time.Duration) Verdict {
	var history []porcupine.Operation
	for _, op := range ends(ops) {
		history = append(history, porcupine.Operation{ClientId: op.Caller, Input: op, Call: op.Call, Return: op.Return})
	}
	result, info := porcupine.CheckOperationsVerbose(model, history, within)
	return Verdict{result == porcupine.Ok, result != porcupine.Unknown, info}
}

// Draw writes porcupine's picture of the history, an HTML file.
func (v Verdict) Draw(path string) error { return porcupine.VisualizePath(model, v.info, path) }

// ends gives unknown acts their ends: none, or when they can change nothing any more. A credential of an older version is dead,
// so an exchange that was done ends what may have happened with the credentials of before. That keeps the search short.
func ends(ops []Op) []Op {
	consented := map[int]int64{}
	for _, op := range ops {
		if op.Act == Consent {
			consented[op.Code] = op.Return
		}
	}
	ended := slices.Clone(ops)
	for i, op := range ended {
		if op.Answer != Unknown {
			continue
		}
		ended[i].Return = math.MaxInt64
		for _, next := range ops {
			if next.Act != Exchange || next.Answer != Done || next.Return < op.Call {
				continue
			}
			dead := false
			switch op.Act {
			case Refresh, RevokeRefresh, RevokeAccess, Read:
				dead = next.Version > op.Version
			case Exchange: // its code is of the version before next, or older
				at, known := consented[op.Code]
				dead = known && next.Call > at
			}
			if dead {
				ended[i].Return = min(ended[i].Return, next.Return)
			}
		}
	}
	return ended
}

// Text lists the acts in the order of their calls, with times in seconds.
func Text(ops []Op) string {
	sorted := slices.Clone(ops)
	slices.SortStableFunc(sorted, func(a, b Op) int { return int(min(1, max(-1, a.Call-b.Call))) })
	var text strings.Builder
	for _, op := range sorted {
		end := fmt.Sprintf("%8.3f", time.Duration(op.Return).Seconds())
		if op.Answer == Unknown {
			end = "       …"
		}
		fmt.Fprintf(&text, "%8.3f %s  [%d] %s\n", time.Duration(op.Call).Seconds(), end, op.Caller, op)
	}
	return text.String()
}
