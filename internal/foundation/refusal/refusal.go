// Package refusal has the errors that several domains return. It also attaches to an error the true reason why a request was
// refused. Callers get one fixed text for many reasons. Operators and partners who test against the sandbox need the exact one.
//
// A reason is a fixed phrase that may name a parameter of the contract, also the one that a caller probably meant. It never contains a
// value or an unknown name that a caller sent, which could be a secret. The package imports nothing of the service, and every package
// may use it.
package refusal

import "errors"

// Errors of several domains: the named user or client does not exist, or can no longer be changed.
var (
	ErrUserNotFound     = errors.New("no such user")
	ErrClientNotFound   = errors.New("no such client")
	ErrClientOffboarded = errors.New("the client was offboarded")
)

// FieldError refuses a field that an operator has entered.
type FieldError struct {
	Field   string // as the domain names it: contact-email, registered_on
	Problem string // what it must be, without the value: "must be 1 to 64"
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

type because struct {
	error
	reason string
}

func (b *because) Unwrap() error { return b.error }

// Because returns err with a reason.
func Because(err error, reason string) error { return &because{err, reason} }

// Reason returns the reason that was attached to err last, or an empty string.
func Reason(err error) string {
	if found := (*because)(nil); errors.As(err, &found) {
		return found.reason
	}
	return ""
}
