// Package history decides whether what the callers of one connection saw can be explained: whether there is one order of all
// acts, each at one instant between its call and its answer, in which every answer is the one that the rules give
// (specification 3.1, 3.2). That is linearizability, and porcupine looks for the order. The rules are stated here a second
// time, in their plainest form. It is for tests only.
//
// # Outcomes that nobody knows
//
// A request without an answer, or answered 500 or 503, may have happened or not, and may happen later. Its act has no end:
// an order that has it after everything else says that it never happened.
//
// # The end
//
// [Look] is the last act: what the database and its audit log have of the connection, and which events its partner was told. A change
// of state that is not told or audited, is so twice, or was told or audited and never happened has no order either.
package history

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// Act is what somebody does to a connection.
type Act string

// The acts.
const (
	Consent            Act = "consent"
	Exchange           Act = "exchange"
	Refresh            Act = "refresh"
	Read               Act = "read"
	RevokeAccess       Act = "revoke access token"
	RevokeRefresh      Act = "revoke refresh token"
	DisconnectByClient Act = "disconnect by client"
	DisconnectByUser   Act = "disconnect by user"
	DeleteUser         Act = "delete user"
	DisableClient      Act = "disable client"
	EnableClient       Act = "enable client"
	Look               Act = "look"
)

// Answer is how an act ended for its caller.
type Answer string

// The answers. The specification's invalid_grant, invalid_access_token and not found are Refused; invalid_client is Stranger.
const (
	Done     Answer = "done"
	Refused  Answer = "refused"
	Stranger Answer = "stranger"
	Unknown  Answer = "unknown"
)

// Op is one act as its caller saw it.
type Op struct {
	Act    Act
	Answer Answer
	// The credential that it presented or received. The rules below say which of them an act has.
	Code       int   // number of a code
	Token      int   // number of an access token
	Version    int64 // of the credential; for an exchange that was done, of the connection that it made
	Generation int64 // of the refresh token
	Seen       Row   // of a Look

	Caller       int   // a row of the picture
	Call, Return int64 // nanoseconds of one clock
}

// Row is what a Look finds.
type Row struct {
	State      string // none, authorized, revoked, disconnected or deleted
	Version    int64
	Generation int64
	Told       string // the events, as [Events] writes them
	Audited    string // the entries of the audit log, in the same form: each end as its event, and each exchange as [Authorized]
}

// Authorized is the reason of an exchange's entry.
const Authorized = "authorized"

// Events writes events in the form of [Row.Told]: each is a version and a reason.
func Events(events []string) string {
	slices.Sort(events)
	return strings.Join(events, "; ")
}

// Event is one of them.
func Event(version int64, reason string) string { return fmt.Sprint(version, " ", reason) }

// state of the connection, its user and its client. It is comparable.
type state struct {
	row      Row
	disabled bool
	codes    string // numbers of the codes that were issued under the present version
	revoked  string // numbers of this version's access tokens that were revoked one by one
}

const (
	none         = "none"
	authorized   = "authorized"
	revoked      = "revoked"
	disconnected = "disconnected"
	deleted      = "deleted"
)

func number(n int) string { return fmt.Sprintf("#%d ", n) }

// ended is told and audited.
func (s state) ended(reason string) state {
	s.row.Told = add(s.row.Told, Event(s.row.Version, reason))
	s.row.Audited = add(s.row.Audited, Event(s.row.Version, reason))
	return s
}

func add(events, event string) string {
	if events == "" {
		return event
	}
	return Events(append(strings.Split(events, "; "), event))
}

// raised is the next version: all credentials of before are dead.
func (s state) raised(to string) state {
	s.row.Version, s.row.State, s.row.Generation, s.codes, s.revoked = s.row.Version+1, to, 0, "", ""
	return s
}

func (s state) current(version int64) bool {
	return s.row.State == authorized && s.row.Version == version
}

// step is the rules: what becomes of the connection, and whether the act is done or refused. A client that is disabled is a
// stranger to all that it does in its own name.
func (s state) step(op Op) (state, Answer) {
	switch op.Act {
	case Consent:
		if s.row.State == deleted {
			return s, Refused
		}
		s.codes += number(op.Code)
		return s, Done
	case DisableClient:
		s.disabled = true
		return s, Done
	case EnableClient:
		s.disabled = false
		return s, Done
	case DeleteUser:
		if s.row.State == deleted {
			return s, Refused
		}
		if s.row.State == authorized || s.row.State == revoked {
			s = s.ended("account_deleted")
		}
		return state{row: Row{State: deleted, Told: s.row.Told, Audited: s.row.Audited}, disabled: s.disabled}, Done
	case DisconnectByUser:
		if s.row.Version == 0 {
			return s, Refused
		}
		return s.disconnect("user_disconnected"), Done
	case Read:
		if s.disabled || !s.current(op.Version) || strings.Contains(s.revoked, number(op.Token)) {
			return s, Refused
		}
		return s, Done
	}
	if s.disabled {
		return s, Stranger
	}
	switch op.Act {
	case Exchange:
		if !strings.Contains(s.codes, number(op.Code)) {
			return s, Refused
		}
		s = s.raised(authorized)
		s.row.Generation = 1
		s.row.Audited = add(s.row.Audited, Event(s.row.Version, Authorized))
		return s, Done
	case Refresh:
		if s.current(op.Version) && s.row.Generation == op.Generation {
			s.row.Generation++
			return s, Done
		}
		if s.current(op.Version) && s.row.Generation > op.Generation {
			s = s.ended("refresh_token_replayed")
			s.row.State = revoked
		}
		return s, Refused
	case RevokeRefresh:
		if s.current(op.Version) {
			s = s.ended("refresh_token_revoked")
			s.row.State = revoked
		}
		return s, Done
	case RevokeAccess:
		if s.row.Version == op.Version && !strings.Contains(s.revoked, number(op.Token)) {
			s.revoked += number(op.Token)
		}
		return s, Done
	case DisconnectByClient:
		if s.row.Version == 0 {
			return s, Done
		}
		return s.disconnect("client_disconnected"), Done
	}
	panic("an act without a rule: " + string(op.Act))
}

// disconnect raises the version also of what is disconnected, and is silent then.
func (s state) disconnect(reason string) state {
	if s.row.State != disconnected {
		s = s.ended(reason)
	}
	return s.raised(disconnected)
}

var model = porcupine.Model{
	Init: func() any { return state{row: Row{State: none}} },
	Step: func(before, input, _ any) (bool, any) {
		s, op := before.(state), input.(Op)
		if op.Act == Look {
			want, seen := s.row, op.Seen
			if want.State != authorized { // what the row keeps of it means nothing
				want.Generation, seen.Generation = 0, 0
			}
			return want == seen, s
		}
		after, answer := s.step(op)
		if op.Answer != Unknown && (answer != op.Answer || op.Act == Exchange && answer == Done && after.row.Version != op.Version) {
			return false, s
		}
		return true, after
	},
	DescribeOperation: func(input, _ any) string { return input.(Op).String() },
	DescribeState: func(of any) string {
		s := of.(state)
		return fmt.Sprintf("%+v, disabled %v, codes %s, revoked %s", s.row, s.disabled, s.codes, s.revoked)
	},
}

// String names the act, by numbers alone: there is no credential in it.
func (op Op) String() string {
	text := string(op.Act)
	switch op.Act {
	case Look:
		return fmt.Sprintf("look: %+v", op.Seen)
	case Consent:
		text += fmt.Sprintf(" (code %d)", op.Code)
	case Exchange:
		text += fmt.Sprintf(" (code %d)", op.Code)
		if op.Answer == Done {
			text += fmt.Sprintf(" of version %d", op.Version)
		}
	case Refresh, RevokeRefresh:
		text += fmt.Sprintf(" %d.%d", op.Version, op.Generation)
	case Read, RevokeAccess:
		text += fmt.Sprintf(" %d of version %d", op.Token, op.Version)
	}
	return text + ": " + string(op.Answer)
}
