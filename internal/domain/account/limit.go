package account

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	accountdb "connect-svc/gen/db/account"
)

// Names of limits, besides that of the address.
const (
	knownBrowser     = "known_browser"
	addressInNetwork = "address_in_network"
	ofNetwork        = "network"
)

// limits returns the limits of an email for an address, in the order in which their rows are locked. The last one is the budget, towards
// which attempts at its code count, too.
//
// A known browser has only its own limit: others with the same address or in the same network do not affect it. All other browsers share
// the limit of the address, a [text.AddressKey], of which a network may use half a day's, and the limits of their network.
func (a *Accounts) limits(address string, browser BrowserKey, network netip.Addr) []limit {
	emails := a.settings.CodesPerEmail
	if browser != (BrowserKey{}) {
		id := browser.id()
		return []limit{{a.keys.PRF("sign-in codes of a known browser", browser.UserID[:], id[:]), emails, daily * emails, knownBrowser}}
	}
	networks := a.networkLimits(network)
	widest := networks[len(networks)-1]
	return append(networks,
		limit{a.keys.PRF("sign-in codes of an address in a network", []byte(address), widest.key[:]), 0, daily * emails / 2, addressInNetwork},
		limit{a.keys.PRF("sign-in codes of an e-mail address", []byte(address)), emails, daily * emails, "address"})
}

// firsts returns the limit of the first emails of networks for an address. See [admit].
func (a *Accounts) firsts(address string) limit {
	emails := a.settings.CodesPerEmail
	return limit{a.keys.PRF("sign-in codes of an address, by networks", []byte(address)), emails, daily * emails, "address"}
}

// networkLimits returns the limit of an IPv4 address, or those of the networks of an IPv6 address: a machine has a /64, a household a /56,
// and a company or any customer on request a /48. The widest is the last.
func (a *Accounts) networkLimits(address netip.Addr) []limit {
	of := func(network string, times int) limit {
		return limit{a.keys.PRF("sign-in codes of a network", []byte(network)), times * a.settings.CodesPerNetwork, 0, ofNetwork}
	}
	address = address.Unmap().WithZone("")
	if !address.Is6() {
		return []limit{of(address.String(), 1)}
	}
	within := func(bits int) string { return netip.PrefixFrom(address, bits).Masked().String() }
	return []limit{of(within(64), 1), of(within(56), 4), of(within(48), 16)}
}

// readCounters reads what limits have counted.
func readCounters(ctx context.Context, queries *accountdb.Queries, limits ...limit) ([]counter, error) {
	counters := make([]counter, len(limits))
	for i, l := range limits {
		emails, err := queries.GetCounter(ctx, l.key[:])
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return nil, err
		}
		counters[i] = counter{limit: l, emails: emails, stored: emails}
	}
	return counters, nil
}

// errOvertaken means that another transaction changed what this one had read and decided on. The transaction is to be repeated.
var errOvertaken = errors.New("changed in the meantime")

// countEmail counts an email towards the limits, or towards firsts instead of the last one. It returns the keys of those that have
// counted it. Errors: *TooManyCodesError, errOvertaken.
func countEmail(ctx context.Context, queries *accountdb.Queries, now time.Time, limits []limit, firsts limit) (counted [][]byte, err error) {
	counters, err := readCounters(ctx, queries, append(slices.Clone(limits), firsts)...)
	if err != nil {
		return nil, err
	}
	changed, next := admit(counters[:len(limits)], counters[len(limits)], now)
	if changed == nil {
		return nil, &TooManyCodesError{next, next.Sub(now), latest(counters[:len(limits)]).name}
	}
	for _, c := range changed {
		n, err := queries.PutCounter(ctx, accountdb.PutCounterParams{
			Key: c.key[:], AskedAt: append([]time.Time{}, c.emails...), At: now, Seen: append([]time.Time{}, c.stored...), // nil would be null
		})
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, errOvertaken
		}
		counted = append(counted, c.key[:])
	}
	return counted, nil
}
