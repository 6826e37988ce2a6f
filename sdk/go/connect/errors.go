package connect

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	connectsdk "connect.invalid/connect-go"
)

var (
	// ErrReconnect matches, with errors.Is, each error after which the user must connect again. The error itself is a
	// [*ReconnectError], which says why.
	ErrReconnect = errors.New("connect: the user must connect again")
	// ErrNotConnected says that the store has no connection of that key.
	ErrNotConnected = errors.New("connect: not connected")
	// ErrDenied says that the user did not agree. Nothing was connected.
	ErrDenied = errors.New("connect: the user did not agree")
	// ErrState reports a callback that belongs to another authorization, or comes too late. Nothing was connected; begin
	// again.
	ErrState = errors.New("connect: the callback does not belong to this authorization")
)

// ReconnectError says why the user must connect again: [StateEnded], or [StateUncertain] after a refresh of unknown
// outcome.
type ReconnectError struct {
	State State
	Cause *Error // the answer that says so; nil if there was none, or it came to an earlier call
	Err   error  // the failure of the network or of the answer, without its address; nil if there was none, or it came to an earlier call
}

func (e *ReconnectError) Error() string {
	if e.State == StateUncertain {
		text := ErrReconnect.Error() + ": it is not known whether a refresh used up its token"
		if e.Err != nil {
			text += ": " + e.Err.Error()
		}
		return text
	}
	return ErrReconnect.Error() + ": the connection was revoked, disconnected or lapsed"
}

// Unwrap returns Err.
func (e *ReconnectError) Unwrap() error { return e.Err }

// Is reports that it is an [ErrReconnect].
func (e *ReconnectError) Is(target error) bool { return target == ErrReconnect }

// SharedError says that the connection was not disconnected, because it is also that of other keys: two users connected the same account,
// and disconnecting the one would end the other.
type SharedError struct {
	Keys []string // the others
}

func (e *SharedError) Error() string {
	return fmt.Sprintf("connect: not disconnected: %d more of the keys have the same account", len(e.Keys))
}

// Error is an error response of the service. It holds the fields to log, and no others (specification section 7).
type Error struct {
	Operation string // of the OpenAPI document, such as readDailyActivity
	Status    int    // of HTTP
	Code      string // such as invalid_date_range; empty when the answer is not the service's own
	RequestID string // X-Request-ID, with which the operator finds the request
	// Reason says in fixed words what is wrong, and names the parameter. Only a sandbox tells it.
	Reason        string
	Documentation string // the address of the page about the code; empty without a code
}

func (e *Error) Error() string {
	text := fmt.Sprintf("connect: %s: the answer was %d", e.Operation, e.Status)
	if e.Code != "" {
		text += " " + e.Code
	}
	if e.RequestID != "" {
		text += " (request " + e.RequestID + ")"
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// refusal reads an error answer: that of the OAuth endpoints has a string where that of the reads has an object.
func refusal(operation string, a answer) *Error {
	e := &Error{Operation: operation, Status: a.status, RequestID: a.header.Get("X-Request-ID"), Reason: a.header.Get("X-Connect-Reason")}
	var oauth connectsdk.OAuthError
	var activity struct {
		Error struct{ Code string }
	}
	if json.Unmarshal(a.body, &oauth) == nil && oauth.Error.Valid() {
		e.Code = string(oauth.Error)
	} else if json.Unmarshal(a.body, &activity) == nil && isReadCode(activity.Error.Code) {
		e.Code = activity.Error.Code
	}
	if e.Code != "" {
		e.Documentation = a.service + "/developers/error-codes.html#" + e.Code
	}
	return e
}

// isReadCode reports whether reads have this error code.
func isReadCode(code string) bool {
	return connectsdk.CyclingActivitiesBadRequestDetailCode(code).Valid() || // has those of the other reads
		connectsdk.InvalidAccessTokenDetailCode(code).Valid() || connectsdk.InsufficientScopeDetailCode(code).Valid() ||
		connectsdk.NotFoundDetailCode(code).Valid() || connectsdk.RateLimitedDetailCode(code).Valid() ||
		connectsdk.DataUnavailableDetailCode(code).Valid()
}

// withoutURL takes the address out of an error of net/http: a cursor may stand in it.
func withoutURL(err error) error {
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}
