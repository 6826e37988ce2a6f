// Package network determines the network address of a caller, and which hosts are this machine.
//
// # Invariants
//
//   - X-Forwarded-For is trusted only if the peer is a trusted proxy, and read from its right end (TestAddress).
//   - A caller cannot appear as many networks by using many addresses of one IPv6 network (TestOf).
package network

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Proxies are the networks of proxies whose X-Forwarded-For is trusted.
type Proxies []netip.Prefix

// Address returns the caller's address. X-Forwarded-For is trusted only from trusted proxies, and read from its right end, where the
// nearest proxy appends: the first address that is not a trusted proxy is the caller's. Anybody may have written the addresses to the
// left of it. The zero value means that the address is unknown.
func (p Proxies) Address(r *http.Request) netip.Addr {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	address := peer.Addr().Unmap()
	forwarded := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(forwarded) {
		if !p.Trust(address) {
			break
		}
		hop = strings.TrimSpace(hop)
		if hop == "" { // an empty element of a list is ignored (RFC 9110, section 5.6.1.2)
			continue
		}
		next, err := netip.ParseAddr(strings.Trim(hop, "[]"))
		if err != nil { // some proxies append a port
			withPort, _ := netip.ParseAddrPort(hop)
			next = withPort.Addr()
		}
		if next = next.Unmap().WithZone(""); !next.IsValid() {
			break // nothing is known beyond the last proxy
		}
		address = next
	}
	return address
}

// Of returns the network of the caller's address.
func (p Proxies) Of(r *http.Request) netip.Prefix { return Of(p.Address(r)) }

// Of returns the network of an address: an IPv4 address, or the IPv6 /48 that a provider assigns to a customer.
func Of(address netip.Addr) netip.Prefix {
	address = address.Unmap()
	bits := 48
	if address.Is4() {
		bits = 32
	}
	return netip.PrefixFrom(address.WithZone(""), bits).Masked()
}

// Trust reports whether the address is that of a trusted proxy, on whichever of this machine's links it is.
func (p Proxies) Trust(address netip.Addr) bool {
	address = address.Unmap().WithZone("") // no network contains an address with a zone
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(address) })
}

// IsLoopback reports whether data sent to host stays on this machine: host is a loopback address or localhost. Other names are not
// resolved, because they may resolve to another address later.
func IsLoopback(host string) bool {
	address, _ := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || address.Unmap().IsLoopback()
}
