package connect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	connectsdk "connect.invalid/connect-go"
)

// othersTimeout bounds what is done for other keys of the same account: the browser of a user waits for it.
const othersTimeout = 5 * time.Second

// Revoke gives the tokens of a connection back; none of them works any more. The user's consent stays: connecting again
// with the same scopes keeps the first day that can be read. Revoking what has ended does nothing. After a refresh of
// unknown outcome there is no token to revoke with, which is a [*ReconnectError]; [Client.Disconnect] works.
func (c *Client) Revoke(ctx context.Context, key string) error {
	lock, held, err := c.hold(ctx, key)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	switch held.State {
	case StateEnded:
		return nil
	case StateRefreshing, StateUncertain:
		return &ReconnectError{State: StateUncertain}
	}
	hint := connectsdk.RevokeRequestTokenTypeHintRefreshToken
	a, err := c.persist(ctx, oauthCall, func(ctx context.Context) (*http.Response, error) {
		return c.api.RevokeTokenWithFormdataBody(ctx, connectsdk.RevokeRequest{Token: held.RefreshToken, TokenTypeHint: &hint}, c.basic)
	})
	if err != nil {
		return err
	}
	if a.status != http.StatusOK {
		return refusal("revokeToken", a)
	}
	return c.save(ctx, lock, held.over(StateEnded))
}

// Disconnect ends a connection, whatever its state, with those of its FormerGrants, and forgets it. The user must consent anew to be
// connected again, and can then be read from that day on.
//
// The error is a [*SharedError] if another key connected the same account, at the same time or since, and has not ended: then it would end
// that one. Its FormerGrants end all the same. [Client.DisconnectShared] ends it for all, and [Client.Forget] leaves it to the others. The store
// must be a [KeyFinder] to know.
func (c *Client) Disconnect(ctx context.Context, key string) error {
	_, err := c.disconnect(ctx, key, true, false)
	return err
}

// DisconnectShared is [Client.Disconnect] although other keys connected the same account. They become [StateEnded].
func (c *Client) DisconnectShared(ctx context.Context, key string) error {
	held, err := c.disconnect(ctx, key, true, true)
	if err == nil {
		c.endOthers(ctx, key, held.GrantID, math.MaxInt64)
	}
	return err
}

// DisconnectFormer ends the connections of a key to accounts that it had before, at the service, and forgets each that has ended. It only
// forgets an account that another key has connected meanwhile. The connection of the key itself stays.
func (c *Client) DisconnectFormer(ctx context.Context, key string) error {
	_, err := c.disconnect(ctx, key, false, false)
	return err
}

// disconnect ends the former grants of a key and, with all, its connection, which it returns. It asks for the other keys before it takes
// the lock, which may be the only connection to a database.
func (c *Client) disconnect(ctx context.Context, key string, all, shared bool) (Connection, error) {
	for {
		seen, err := c.config.Store.Load(ctx, key)
		if err != nil {
			return seen, err
		}
		var others []string
		if all && !shared {
			if others, err = c.others(ctx, key, seen.GrantID, seen.number()); err != nil {
				return seen, err
			}
		}
		theirs := map[uuid.UUID]bool{}
		for _, grant := range seen.FormerGrants {
			others, err := c.others(ctx, key, grant, 0)
			if err != nil {
				return seen, err
			}
			theirs[grant] = len(others) > 0
		}
		lock, held, err := c.hold(ctx, key)
		if err != nil {
			return held, err
		}
		if held.GrantID == seen.GrantID && slices.Equal(held.FormerGrants, seen.FormerGrants) {
			defer lock.Unlock()
			if err = c.endHeld(ctx, lock, held, theirs, all && len(others) == 0); err == nil && len(others) > 0 {
				err = &SharedError{Keys: others}
			}
			return held, err
		}
		lock.Unlock() // it was connected anew meanwhile
	}
}

func (c *Client) endHeld(ctx context.Context, lock Lock, held Connection, theirs map[uuid.UUID]bool, all bool) error {
	for len(held.FormerGrants) > 0 {
		if grant := held.FormerGrants[0]; !theirs[grant] {
			if err := c.endGrant(ctx, grant); err != nil {
				return err
			}
		}
		held.FormerGrants = held.FormerGrants[1:]
		if err := c.save(ctx, lock, held); err != nil {
			return err
		}
	}
	if !all {
		return nil
	}
	if err := c.endGrant(ctx, held.GrantID); err != nil {
		return err
	}
	return lock.Delete(ctx)
}

// endGrant has the service end a grant. One that has ended already stays so.
func (c *Client) endGrant(ctx context.Context, grant uuid.UUID) error {
	a, err := c.persist(ctx, oauthCall, func(ctx context.Context) (*http.Response, error) {
		return c.api.DisconnectGrant(ctx, grant, c.basic)
	})
	if err == nil && a.status != http.StatusNoContent {
		err = refusal("disconnectGrant", a)
	}
	return err
}

// Forget deletes what the store has of a key, and tells the service nothing. It is for a key whose account another key connected since:
// [*SharedError]. A connection that no other key has stays open at the service.
func (c *Client) Forget(ctx context.Context, key string) error {
	lock, err := c.config.Store.Lock(ctx, key)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return lock.Delete(ctx)
}

// Ended notes what a connection.revoked webhook says, and throws the tokens away: those of that connection version and
// of all before it do not work any more. It reports whether this changed the connection. Nothing changes if the
// connection does not exist, has ended already, or was made again since, so that its version is later.
//
// The key is one whose connection has the grant_id of the webhook, as [KeyFinder] finds them. One that had it and has another account since is
// none: versions of two grants cannot be compared.
func (c *Client) Ended(ctx context.Context, key string, version int64) (bool, error) {
	seen, err := c.config.Store.Load(ctx, key)
	if errors.Is(err, ErrNotConnected) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	lock, held, err := c.hold(ctx, key)
	if errors.Is(err, ErrNotConnected) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer lock.Unlock()
	if held.GrantID != seen.GrantID {
		return false, nil // the user connected another account while this waited for the lock
	}
	current, err := strconv.ParseInt(held.Version, 10, 64)
	if err != nil {
		return false, fmt.Errorf("connect: the stored connection version is not a number: %w", err)
	}
	if held.State == StateEnded || version < current {
		return false, nil
	}
	return true, c.save(ctx, lock, held.over(StateEnded))
}

// others are the keys beside key whose connections have the grant, in a version from the given one on, and have not ended. A store that
// is no [KeyFinder] knows none.
func (c *Client) others(ctx context.Context, key string, grant uuid.UUID, since int64) (others []string, err error) {
	finder, ok := c.config.Store.(KeyFinder)
	if !ok {
		return nil, nil
	}
	keys, err := finder.KeysOf(ctx, grant.String())
	for _, other := range keys {
		if other == key {
			continue
		}
		held, err := c.config.Store.Load(ctx, other)
		if errors.Is(err, ErrNotConnected) || err == nil && (held.GrantID != grant || held.State == StateEnded || held.number() < since) {
			continue
		}
		others = append(others, other) // also if it cannot be read
	}
	return others, err
}

// endOthers notes that the tokens of other keys do not work any more, whose connections have the grant in a version up to the given one,
// and returns these keys. If that takes too long, their next refresh shows it. The caller holds no lock: two that waited for each other's
// would wait for ever.
func (c *Client) endOthers(ctx context.Context, key string, grant uuid.UUID, version int64) []string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), othersTimeout)
	defer cancel()
	others, _ := c.others(ctx, key, grant, 0)
	for _, other := range others {
		lock, held, err := c.hold(ctx, other)
		if err != nil {
			continue
		}
		if held.GrantID == grant && held.State != StateEnded && held.number() <= version {
			_ = c.save(ctx, lock, held.over(StateEnded))
		}
		lock.Unlock()
	}
	return others
}

// number is the version as a number, which is above zero, or zero if it is none.
func (c Connection) number() int64 {
	number, _ := strconv.ParseInt(c.Version, 10, 64)
	return number
}
