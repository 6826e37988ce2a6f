package partner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/google/uuid"

	sdk "connect-svc/gen/sdk/go"
)

// errOver: the connection gives nothing any more until the member connects again.
var errOver = errors.New("the connection is over")

// almostOver is how long before its end an access token is not used any more.
const almostOver = 10 * time.Second

// exchange turns the code of the callback into the first tokens.
func (p *Partner) exchange(ctx context.Context, member, code, verifier string) (string, error) {
	callback := p.callback()
	answer, err := p.api.RequestTokenWithFormdataBodyWithResponse(ctx, sdk.TokenRequest{
		GrantType: sdk.GrantTypeAuthorizationCode, Code: &code, RedirectUri: &callback, CodeVerifier: &verifier,
	}, p.basic)
	if err != nil {
		return "", fmt.Errorf("the code could not be exchanged: %w", err)
	}
	if answer.JSON200 == nil {
		return "", fmt.Errorf("the code could not be exchanged: %s", refusal(answer.StatusCode(), answer.JSON400))
	}
	lock := p.refreshing[member]
	lock.Lock()
	defer lock.Unlock()
	if err := p.Keep(member, *answer.JSON200, p.now()); err != nil {
		return "", err
	}
	return fmt.Sprintf("You agreed. The code from your browser became tokens that only this backend has: one to read with, "+
		"for %d seconds at a time, and one to renew it.", answer.JSON200.ExpiresIn), nil
}

// Keep stores the tokens of a connection that a member made at the given time, in place of those that were there.
func (p *Partner) Keep(member string, tokens sdk.TokenResponse, connectedAt time.Time) error {
	return p.store.put(member, Connection{ConnectedAt: connectedAt}.with(tokens, p.now()))
}

// with is the connection with the pair of tokens of an answer.
func (c Connection) with(tokens sdk.TokenResponse, now time.Time) Connection {
	c.GrantID, c.Version, c.HistoryFrom = tokens.GrantId.String(), tokens.ConnectionVersion, tokens.HistoryFrom.Time
	c.AccessToken, c.AccessUntil = tokens.AccessToken, now.Add(time.Duration(tokens.ExpiresIn)*time.Second)
	c.RefreshToken, c.Over, c.Forgotten = tokens.RefreshToken, "", false
	return c
}

// fresh is the connection with an access token that works, as far as can be known: not the rejected one.
func (p *Partner) fresh(ctx context.Context, member, rejected string) (Connection, error) {
	lock := p.refreshing[member]
	lock.Lock()
	defer lock.Unlock()
	c, found := p.store.get(member)
	if !found || c.Over != "" {
		return c, errOver
	}
	if c.AccessToken != rejected && p.now().Add(almostOver).Before(c.AccessUntil) {
		return c, nil // also when another request has refreshed it while we waited
	}
	return p.refresh(ctx, member, c)
}

// refresh gets the next pair of tokens. The caller holds the lock of the member.
func (p *Partner) refresh(ctx context.Context, member string, c Connection) (Connection, error) {
	presented := c.RefreshToken
	if presented == "" {
		// The process ended while a refresh was under way.
		return p.end(member, c, "a renewal was cut off, and its token must not be sent twice")
	}
	// Out of the store before it is sent: nothing that happens now can make us send it again.
	c.RefreshToken = ""
	if err := p.store.put(member, c); err != nil {
		return c, err
	}
	answer, err := p.api.RequestTokenWithFormdataBodyWithResponse(ctx, sdk.TokenRequest{
		GrantType: sdk.GrantTypeRefreshToken, RefreshToken: &presented,
	}, p.basic)
	switch dial := (*net.OpError)(nil); {
	case errors.As(err, &dial) && dial.Op == "dial", err == nil && answer.StatusCode() == http.StatusUnauthorized:
		// It never left, or it was not looked at: it is still good.
		c.RefreshToken = presented
		if err := p.store.put(member, c); err != nil {
			return c, err
		}
		return c, errors.New("the service cannot be reached, or does not accept this partner's credentials")
	case err == nil && answer.JSON200 != nil:
		next := c.with(*answer.JSON200, p.now())
		return next, p.store.put(member, next)
	case err == nil && answer.JSON400 != nil && answer.JSON400.Error == sdk.OAuthErrorCodeInvalidGrant:
		return p.end(member, c, "access was revoked or ran out")
	default: // an answer of 5xx, or none: the token may be used up (specification 5.4)
		return p.end(member, c, "a renewal failed in a way that leaves its token in doubt")
	}
}

// end notes that the member must connect again.
func (p *Partner) end(member string, c Connection, why string) (Connection, error) {
	c.Over, c.AccessToken, c.RefreshToken = why, "", ""
	if err := p.store.put(member, c); err != nil {
		return c, err
	}
	return c, errOver
}

// refreshNow is the button: a new pair although the old one still works.
func (p *Partner) refreshNow(ctx context.Context, member Member) (string, error) {
	c, _ := p.store.get(member.Key)
	_, err := p.fresh(ctx, member.Key, c.AccessToken)
	if errors.Is(err, errOver) {
		return "There was nothing to renew: the connection is over. Connect again.", nil
	}
	if err != nil {
		return "", err
	}
	return "Renewed: both tokens were replaced by new ones. The old renewal token is worthless now; " +
		"had anybody else tried to use it, everything would have been revoked.", nil
}

// revoke gives the tokens back. The consent stays: connecting again with the same scopes keeps the first day.
func (p *Partner) revoke(ctx context.Context, member Member) (string, error) {
	lock := p.refreshing[member.Key]
	lock.Lock()
	defer lock.Unlock()
	c, _ := p.store.get(member.Key)
	if c.RefreshToken == "" {
		return "There were no tokens to revoke.", nil
	}
	answer, err := p.api.RevokeTokenWithFormdataBodyWithResponse(ctx, sdk.RevokeRequest{Token: c.RefreshToken}, p.basic)
	if err != nil {
		return "", fmt.Errorf("the tokens could not be revoked: %w", err)
	}
	if answer.StatusCode() != http.StatusOK {
		return "", fmt.Errorf("the tokens could not be revoked: %s", refusal(answer.StatusCode(), answer.JSON400))
	}
	if _, err := p.end(member.Key, c, "this partner revoked its own tokens"); !errors.Is(err, errOver) {
		return "", err
	}
	return "Revoked: neither token works any more, at once. Your consent is remembered: " +
		"connect again, and this partner may read from the same first day on.", nil
}

// disconnect ends the connection. It works whatever state that is in.
func (p *Partner) disconnect(ctx context.Context, member Member) (string, error) {
	lock := p.refreshing[member.Key]
	lock.Lock()
	defer lock.Unlock()
	c, found := p.store.get(member.Key)
	if !found {
		return "There was no connection to end.", nil
	}
	grant, err := uuid.Parse(c.GrantID)
	if err != nil {
		return "", err
	}
	answer, err := p.api.DisconnectGrantWithResponse(ctx, grant, p.basic)
	if err != nil {
		return "", fmt.Errorf("the connection could not be ended: %w", err)
	}
	if answer.StatusCode() != http.StatusNoContent {
		return "", fmt.Errorf("the connection could not be ended: %s", refusal(answer.StatusCode(), answer.JSON400))
	}
	if err := p.store.remove(member.Key); err != nil {
		return "", err
	}
	return "Disconnected: Activity Connect has forgotten your consent, and this partner has thrown away the tokens. " +
		"A new connection will begin with the day on which you agree to it.", nil
}

// refusal names an error answer of the OAuth endpoints.
func refusal(status int, body *sdk.OAuthError) string {
	if body == nil {
		return fmt.Sprintf("the answer was %d", status)
	}
	return fmt.Sprintf("the answer was %d %s", status, body.Error)
}
