package network

import (
	"net/netip"
	"strings"
)

// IsLoopback reports whether data sent to host stays on this machine: host is a loopback address or localhost. Other names are not
// resolved, because they may resolve to another address later.
func IsLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}
