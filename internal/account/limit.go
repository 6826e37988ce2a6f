package account

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/jackc/pgx/v5"

	accountdb "connect-svc/gen/db/account"
	"connect-svc/internal/postgres"
)

// limit is how many emails may be sent to, or for, whom its key stands for; 0 is no limit.
type limit struct {
	key             [32]byte
	perHour, perDay int
}

// daily is how many times the emails of an hour a day may have.
const daily = 4

// limits are those of an email for an address, in the order in which their rows are locked. The last one is the budget, towards
// which attempts at its code count, too.
//
// A known browser has its own alone: what others do with the address, or in the same network, is nothing to it. All other browsers share
// that of the folded address, of which a network may have half a day's, and that of their network.
func (a *Accounts) limits(folded string, browser BrowserKey, network netip.Addr) []limit {
	emails := a.settings.CodesPerEmail
	if browser != (BrowserKey{}) {
		id := browser.id()
		return []limit{{a.keys.PRF("sign-in codes of a known browser", browser.UserID[:], id[:]), emails, daily * emails}}
	}
	networks := a.networkLimits(network)
	widest := networks[len(networks)-1]
	return append(networks,
		limit{a.keys.PRF("sign-in codes of an address in a network", []byte(folded), widest.key[:]), 0, daily * emails / 2},
		limit{a.keys.PRF("sign-in codes of an e-mail address", []byte(folded)), emails, daily * emails})
}

// firsts is a second budget of an address, for the first email of a network within a day. It counts only emails that the budget of
// all networks refuses. Strangers of a few networks therefore cannot take the last email that the owner may have.
func (a *Accounts) firsts(folded string) limit {
	emails := a.settings.CodesPerEmail
	return limit{a.keys.PRF("sign-in codes of an address, by networks", []byte(folded)), emails, daily * emails}
}

// networkLimits are those of an IPv4 address, or of the networks of an IPv6 address: a /64 is what a machine has, a /56 a
// household, and a /48 a company or whoever asks a provider for one. The widest is the last.
func (a *Accounts) networkLimits(address netip.Addr) []limit {
	of := func(network string, times int) limit {
		return limit{a.keys.PRF("sign-in codes of a network", []byte(network)), times * a.settings.CodesPerNetwork, 0}
	}
	address = address.Unmap().WithZone("")
	if !address.Is6() {
		return []limit{of(address.String(), 1)}
	}
	within := func(bits int) string { return netip.PrefixFrom(address, bits).Masked().String() }
	return []limit{of(within(64), 1), of(within(56), 4), of(within(48), 16)}
}

// countEmail counts an email towards all limits and returns the keys of those that have counted it. Error: ErrTooManyCodes; then
// the transaction is to be rolled back.
func (a *Accounts) countEmail(ctx context.Context, queries *accountdb.Queries, at time.Time, limits []limit, firsts limit) (counted [][]byte, err error) {
	count := func(by limit) (emails int32, err error) {
		emails, err = queries.CountEmail(ctx, accountdb.CountEmailParams{
			Key: by.key[:], At: at, PerHour: int32(by.perHour), PerDay: int32(by.perDay),
		})
		if emails > 0 {
			counted = append(counted, by.key[:])
		}
		return emails, postgres.NoRowsAs(err, nil)
	}
	budget, isNew := limits[len(limits)-1], false
	for _, by := range limits[:len(limits)-1] {
		if by.perHour == 0 && by.perDay == 0 {
			continue
		}
		emails, err := count(by)
		if err != nil {
			return nil, err
		}
		if emails == 0 {
			return nil, ErrTooManyCodes
		}
		isNew = emails == 1 // the last one is of this network and address
	}
	emails, err := count(budget)
	if err == nil && emails == 0 && isNew {
		emails, err = count(firsts)
	}
	if err == nil && emails == 0 {
		err = ErrTooManyCodes
	}
	return counted, err
}

// nextEmail is when all limits let an email be sent, and how long that takes; zero where they do already.
func (a *Accounts) nextEmail(ctx context.Context, limits []limit) (at time.Time, wait time.Duration, err error) {
	for _, by := range limits {
		row, err := a.queries.NextEmail(ctx, accountdb.NextEmailParams{Key: by.key[:], PerHour: int32(by.perHour), PerDay: int32(by.perDay)})
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return at, wait, err
		}
		if row.NextAt.Sub(row.Now) > wait {
			at, wait = row.NextAt, row.NextAt.Sub(row.Now)
		}
	}
	return at, wait, nil
}
