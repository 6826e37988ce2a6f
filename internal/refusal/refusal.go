// Package refusal attaches to an error the true reason for which a request was refused. Callers get one fixed text for many
// reasons; the operator, and whoever tests against the sandbox, need the one that holds.
//
// A reason is a fixed phrase of the service's own that may name a parameter of the contract. It never has a value that a caller
// sent. The package imports nothing of the service, and every package may use it.
package refusal

import "errors"

type because struct {
	error
	reason string
}

func (b *because) Unwrap() error { return b.error }

// Because is err with a reason.
func Because(err error, reason string) error { return &because{err, reason} }

// Reason is the reason that err was given last, empty if it has none.
func Reason(err error) string {
	if found := (*because)(nil); errors.As(err, &found) {
		return found.reason
	}
	return ""
}
