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

// ends gives unknown acts their ends: none, or when they can change nothing any more. An act that could never change anything is
// left out. That keeps the search short.
func ends(ops []Op) (ended []Op) {
	for _, op := range ops {
		if op.Answer == Unknown {
			op.Return = math.MaxInt64
			since := credited(ops, op)
			for _, next := range ops {
				if kills(op, next, since) {
					op.Return = min(op.Return, next.Return)
				}
			}
			readAfter := func(next Op) bool { return next.Act == Read && next.Token == op.Token && next.Return >= op.Call }
			if op.Return < op.Call || op.Act == RevokeAccess && !slices.ContainsFunc(ops, readAfter) {
				continue
			}
		}
		ended = append(ended, op)
	}
	return ended
}

// credited is when the credential that an act presents was there: its code, or its connection's version.
func credited(ops []Op, op Op) int64 {
	for _, before := range ops {
		if before.Answer == Done && (op.Act == Exchange && before.Act == Consent && before.Code == op.Code ||
			op.Act != Exchange && before.Act == Exchange && before.Version == op.Version) {
			return before.Return
		}
	}
	return math.MaxInt64
}

// kills reports whether an act that presents a credential that was there since then can change nothing once next was answered.
// An exchange and a disconnect raise the version, and a deletion ends everything.
func kills(op, next Op, since int64) bool {
	switch next.Act {
	case DeleteUser:
		return next.Answer == Done || next.Answer == Refused
	case Exchange, DisconnectByClient, DisconnectByUser:
	default:
		return false
	}
	switch op.Act {
	case Refresh, RevokeRefresh, RevokeAccess, Exchange:
		return next.Answer == Done && next.Call > since
	}
	return false
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
