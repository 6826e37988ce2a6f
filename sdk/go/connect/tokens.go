package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	connectsdk "connect.invalid/connect-go"
)

// lockTimeout bounds the wait for a lock, and the time for which a refresh holds it beside its requests: the lock of a store may end by
// itself after three minutes.
const lockTimeout = 90 * time.Second

// flight is a refresh under way in this process. Callers that need its result wait for done.
type flight struct {
	rejected string // the access token that it is to replace
	done     chan struct{}
	c        Connection
	err      error
}

// Connection returns the stored connection without its tokens: its state, and the first day that can be read. It sends
// nothing.
func (c *Client) Connection(ctx context.Context, key string) (Connection, error) {
	held, err := c.config.Store.Load(ctx, key)
	return held.over(held.State), err
}

// AccessToken returns the connection with an access token that can be used. It refreshes if necessary. The reads of this
// package do so by themselves.
func (c *Client) AccessToken(ctx context.Context, key string) (Connection, error) {
	return c.fresh(ctx, key, "")
}

// Refresh gets a new pair of tokens even if the old one still works, unless another instance has just done so. It keeps a
// seldom read connection alive: a connection lapses without a refresh within the inactivity period, 90 days by default.
func (c *Client) Refresh(ctx context.Context, key string) (Connection, error) {
	held, err := c.config.Store.Load(ctx, key)
	if err != nil {
		return Connection{}, err
	}
	return c.fresh(ctx, key, held.AccessToken)
}

// fresh is the connection with an access token that can be used and is not the rejected one.
func (c *Client) fresh(ctx context.Context, key, rejected string) (Connection, error) {
	held, err := c.config.Store.Load(ctx, key)
	if err != nil {
		return Connection{}, err
	}
	for !c.usable(held, rejected) {
		if held.State == StateUncertain || held.State == StateEnded {
			return Connection{}, &ReconnectError{State: held.State}
		}
		f := c.join(ctx, key, rejected)
		select {
		case <-f.done:
		case <-ctx.Done():
			return Connection{}, ctx.Err() // the refresh goes on
		}
		if f.err != nil {
			return Connection{}, f.err
		}
		if f.c.AccessToken != rejected || f.rejected == rejected {
			return f.c, nil // however short it lives
		}
		held = f.c // of a refresh that began before our token was rejected
	}
	return held, nil
}

func (c *Client) usable(held Connection, rejected string) bool {
	return held.AccessToken != "" && held.AccessToken != rejected && c.config.Now().Before(held.UseUntil) &&
		(held.State == StateActive || held.State == StateRefreshing)
}

// join is the refresh of this process for key, which it starts if there is none.
func (c *Client) join(ctx context.Context, key, rejected string) *flight {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, found := c.flights[key]; found {
		return f
	}
	f := &flight{rejected: rejected, done: make(chan struct{})}
	c.flights[key] = f
	ctx = context.WithoutCancel(ctx) // a refresh that is cut off costs the connection
	c.underWay.Add(1)
	go func() {
		defer c.underWay.Done()
		f.c, f.err = c.refresh(ctx, key, rejected)
		c.mu.Lock()
		delete(c.flights, key)
		c.mu.Unlock()
		close(f.done)
	}()
	return f
}

// refresh gets the next pair of tokens, unless somebody else got one while it waited for the lock. It sends the token again only if
// the service says that it was not used.
func (c *Client) refresh(ctx context.Context, key, rejected string) (Connection, error) {
	waiting, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	lock, held, err := c.hold(waiting, key)
	if err != nil {
		return Connection{}, err
	}
	defer lock.Unlock()
	switch {
	case held.State == StateRefreshing:
		// This process has the lock: the one that sent the token ended before the answer came.
		return c.end(ctx, lock, held, &ReconnectError{State: StateUncertain})
	case held.State != StateActive:
		return Connection{}, &ReconnectError{State: held.State}
	case c.usable(held, rejected):
		return held, nil
	}
	deadline, _ := waiting.Deadline()
	for tries := 1; ; tries++ {
		sent := held
		sent.State = StateRefreshing
		if err := lock.Save(waiting, sent); err != nil {
			return Connection{}, err // nothing was sent
		}
		next, wait, err := c.sendRefresh(ctx, lock, held)
		if wait == 0 || tries == c.config.MaxTries || wait > min(c.config.MaxWait, time.Until(deadline)) || c.config.Sleep(waiting, wait) != nil {
			return next, err
		}
	}
}

// sendRefresh sends the refresh token once, and stores what is known of the connection afterwards. If the token was not used, wait is
// how long the service wants to be left alone.
func (c *Client) sendRefresh(ctx context.Context, lock Lock, held Connection) (next Connection, wait time.Duration, err error) {
	over := func(state State, cause *Error, err error) (Connection, time.Duration, error) {
		ended, err := c.end(ctx, lock, held, &ReconnectError{state, cause, err})
		return ended, 0, err
	}
	asked, departure := c.config.Now(), departure{repeats: c.repeats}
	a, err := c.once(departure.watch(ctx), func(ctx context.Context) (*http.Response, error) {
		return c.api.RequestTokenWithFormdataBody(ctx, connectsdk.TokenRequest{
			GrantType: connectsdk.GrantTypeRefreshToken, RefreshToken: &held.RefreshToken,
		}, c.basic, departure.edit)
	})
	if err != nil {
		if departure.never(err) {
			return Connection{}, 0, errors.Join(err, c.save(ctx, lock, held))
		}
		return over(StateUncertain, nil, err)
	}
	refused := refusal("requestToken", a)
	switch {
	case a.status == http.StatusOK:
		next, err := connected(a, asked)
		if err != nil {
			return over(StateUncertain, nil, err)
		}
		next.FormerGrants = held.FormerGrants
		return next, 0, c.save(ctx, lock, next)
	case a.status == http.StatusBadRequest && refused.Code == string(connectsdk.OAuthErrorCodeInvalidGrant):
		return over(StateEnded, refused, nil)
	case (a.status == http.StatusBadRequest || a.status == http.StatusUnauthorized) && refused.Code != "":
		return Connection{}, 0, errors.Join(refused, c.save(ctx, lock, held)) // refused before it was looked at
	case notAttempted(a.header):
		err := c.save(ctx, lock, held)
		if err == nil {
			wait = retryAfter(a.header)
		}
		return Connection{}, wait, errors.Join(refused, err)
	default:
		return over(StateUncertain, refused, nil)
	}
}

func (c *Client) hold(ctx context.Context, key string) (lock Lock, held Connection, err error) {
	if lock, err = c.config.Store.Lock(ctx, key); err != nil {
		return nil, held, err
	}
	if held, err = lock.Load(ctx); err != nil {
		lock.Unlock()
	}
	return lock, held, err
}

// end stores that the user must connect again, and says so.
func (c *Client) end(ctx context.Context, lock Lock, held Connection, why *ReconnectError) (Connection, error) {
	return Connection{}, errors.Join(why, c.save(ctx, lock, held.over(why.State)))
}

// over is the connection without its tokens. The rest names it, so that it can be disconnected.
func (c Connection) over(state State) Connection {
	c.State, c.AccessToken, c.RefreshToken, c.UseUntil = state, "", "", time.Time{}
	return c
}

// save stores what was learned. It tries again, also when the caller has gone: what is lost here is lost for good.
func (c *Client) save(ctx context.Context, lock Lock, connection Connection) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.config.Timeout)
	defer cancel()
	for try := 1; ; try++ {
		err := lock.Save(ctx, connection)
		if err == nil {
			return nil
		}
		if try == c.config.MaxTries || c.config.Sleep(ctx, c.backoff(try)) != nil {
			return fmt.Errorf("connect: what the service answered could not be stored: %w", err)
		}
	}
}

// connected is the connection of a token answer that was asked for at the given time.
func connected(a answer, asked time.Time) (Connection, error) {
	var tokens connectsdk.TokenResponse
	if err := json.Unmarshal(a.body, &tokens); err != nil || tokens.AccessToken == "" || tokens.RefreshToken == "" {
		return Connection{}, errors.New("connect: the answer of the token endpoint cannot be read")
	}
	lifetime := time.Duration(tokens.ExpiresIn) * time.Second
	return Connection{
		GrantID: tokens.GrantId, Version: tokens.ConnectionVersion, HistoryFrom: tokens.HistoryFrom, Scope: tokens.Scope,
		State: StateActive, AccessToken: tokens.AccessToken, RefreshToken: tokens.RefreshToken,
		UseUntil: asked.Add(lifetime - min(10*time.Second, lifetime/10)),
	}, nil
}
