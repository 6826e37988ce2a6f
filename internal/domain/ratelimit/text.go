package ratelimit

import (
	"encoding/json"
	"fmt"
	"time"
)

// version of the texts in the store. All versions have the fields version and at. Servers of two releases run side by side, and the
// older one must read what the newer one writes. So it takes two releases to introduce a version: the first reads it, and the second
// writes it.
const version = 1

// versioned is a state as the store has it.
type versioned struct {
	Version int `json:"version"`
	state
}

func (s state) text() (string, error) {
	text, err := json.Marshal(versioned{version, s})
	return string(text), err
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
	var of struct{ Version, At int64 } // the other fields may have other types
	if err := json.Unmarshal([]byte(text), &of); err != nil {
		return state{}, err
	}
	empty := state{At: of.At}
	if empty.isAhead(policy, now) {
		return state{At: now.UnixMicro()}, nil
	}
	if over := max(empty.fullAfter(policy), LeaseLifetime); now.Before(time.UnixMicro(of.At).Add(over)) {
		return state{}, fmt.Errorf("the client's state has version %d, which this program does not read", of.Version)
	}
	return state{}, nil
}
