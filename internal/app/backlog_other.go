//go:build !linux

package app

import "net"

// takeNoMore does nothing here: a connection that waits to be accepted when the listener closes is reset.
func takeNoMore(net.Listener) bool { return false }

func waiting(net.Listener) int { return 0 }
