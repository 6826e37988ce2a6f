package network

import (
	"net/netip"
	"strings"
)

// IsLoopback tells whether what is sent to host stays on this machine: host is a loopback address or `localhost`. Other names
// are not looked up: what they lead to may differ the next time.
func IsLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}
