//go:build !linux

package app

import "net"

// takeNoMore does nothing here. Closing the listener resets connections that wait to be accepted.
func takeNoMore(net.Listener) bool { return false }

func waiting(net.Listener) int { return 0 }
