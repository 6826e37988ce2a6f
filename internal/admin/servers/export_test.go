package servers

import "time"

// For the tests of package servers_test.

// Judge is the rule.
var Judge = judge

// Jumped is the state of a server to which the database's clock seems to have jumped at that time.
func Jumped(at time.Time) Clock { return Clock{jumped: at} }

// BeSure has the server be one that is unsure for long.
func (s *Servers) BeSure() { s.unsure = time.Now().Add(-time.Hour) }

// BeLost has the server be one that has sent no heartbeat for long.
func (s *Servers) BeLost() { s.seenAt = time.Time{} }
