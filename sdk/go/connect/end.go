package connect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	connectsdk "connect.invalid/connect-go"
)

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

// Disconnect ends a connection, whatever its state, and forgets it. The user must consent anew to be connected again,
// and can then be read from that day on.
func (c *Client) Disconnect(ctx context.Context, key string) error {
	lock, held, err := c.hold(ctx, key)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	a, err := c.persist(ctx, oauthCall, func(ctx context.Context) (*http.Response, error) {
		return c.api.DisconnectGrant(ctx, held.GrantID, c.basic)
	})
	if err != nil {
		return err
	}
	if a.status != http.StatusNoContent {
		return refusal("disconnectGrant", a)
	}
	return lock.Delete(ctx)
}

// Ended notes what a connection.revoked webhook says, and throws the tokens away: those of that connection version and
// of all before it do not work any more. It reports whether this changed the connection. Nothing changes if the
// connection does not exist, has ended already, or was made again since, so that its version is later.
func (c *Client) Ended(ctx context.Context, key string, version int64) (bool, error) {
	lock, held, err := c.hold(ctx, key)
	if errors.Is(err, ErrNotConnected) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer lock.Unlock()
	current, err := strconv.ParseInt(held.Version, 10, 64)
	if err != nil {
		return false, fmt.Errorf("connect: the stored connection version is not a number: %w", err)
	}
	if held.State == StateEnded || version < current {
		return false, nil
	}
	return true, c.save(ctx, lock, held.over(StateEnded))
}
