package pages

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"connect-svc/internal/fairqueue"
)

// network is the user's network address, as far as it can be known. X-Forwarded-For is trusted only from trusted proxies
// and read from its right end, where the nearest proxy appends: the first address that is not a trusted proxy is the
// user's. Anybody may have written what is left of it.
func (p *pages) network(r *http.Request) netip.Addr {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	address := peer.Addr().Unmap()
	forwarded := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(forwarded) {
		if !p.trusts(address) {
			break
		}
		next, ok := parseHop(hop)
		if !ok {
			break // the last proxy is all that is known
		}
		address = next
	}
	return address
}

// caller is in whose line a request waits for the database. Where somebody has signed in, to the account pages or to a request, it
// is that user's: the cookies that say so are sealed, and nobody else has one. All other browsers of a network share a line.
func (p *pages) caller(r *http.Request) fairqueue.Caller {
	if key, ok := p.sessionKey(r); ok {
		return fairqueue.Caller{Kind: fairqueue.Users, Name: key.UserID.String()}
	}
	if session, ok := p.requestSession(r); ok {
		return fairqueue.Caller{Kind: fairqueue.Users, Name: session.UserID.String()}
	}
	address := p.network(r)
	if address.Is6() { // a provider's customer may have a /48
		return fairqueue.Caller{Kind: fairqueue.Strangers, Name: netip.PrefixFrom(address, 48).Masked().String()}
	}
	return fairqueue.Caller{Kind: fairqueue.Strangers, Name: address.String()}
}

func (p *pages) trusts(address netip.Addr) bool {
	return slices.ContainsFunc(p.TrustedProxies, func(network netip.Prefix) bool {
		return network.Contains(address)
	})
}

// parseHop parses an address of X-Forwarded-For, to which some proxies append a port.
func parseHop(hop string) (netip.Addr, bool) {
	hop = strings.TrimSpace(hop)
	address, err := netip.ParseAddr(strings.Trim(hop, "[]"))
	if err != nil {
		withPort, err := netip.ParseAddrPort(hop)
		if err != nil {
			return netip.Addr{}, false
		}
		address = withPort.Addr()
	}
	return address.Unmap().WithZone(""), true
}
