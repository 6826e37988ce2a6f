package connect

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"

	connectsdk "connect.invalid/connect-go"
)

// beginLifetime is that of the service's authorization request (specification 5.3), and a little for the way back.
const beginLifetime = 11 * time.Minute

// Authorization is one attempt to connect. Keep it on the backend, in the session of the user who began it, and take it
// out of there when the browser comes back: it works once, and for that user alone (specification 5.3).
type Authorization struct {
	URL       string    `json:"url"`      // where to send the browser
	State     string    `json:"state"`    // comes back with the browser
	Verifier  string    `json:"verifier"` // of PKCE; secret
	ExpiresAt time.Time `json:"expires_at"`
}

// Begin makes the URL to send the user's browser to, with a fresh state and PKCE verifier. It sends nothing.
func (c *Client) Begin() Authorization {
	a := Authorization{State: rand.Text(), Verifier: rand.Text() + rand.Text(), ExpiresAt: c.config.Now().Add(beginLifetime)}
	challenge := sha256.Sum256([]byte(a.Verifier))
	a.URL = c.config.BaseURL + "/oauth/authorize?" + url.Values{
		"client_id":             {c.config.ClientID},
		"redirect_uri":          {c.config.CallbackURL},
		"response_type":         {"code"},
		"scope":                 {c.scopes()},
		"state":                 {a.State},
		"code_challenge":        {base64.RawURLEncoding.EncodeToString(challenge[:])},
		"code_challenge_method": {"S256"},
	}.Encode()
	return a
}

// Finish handles the callback: it exchanges the code of the callback's query for the first tokens, and stores the
// connection under key in place of an earlier one. The error is [ErrState] if the callback does not belong to begun,
// [ErrDenied] if the user refused, and an [*Error] if the service refuses the code.
//
// The connection tells who else it concerns, as far as the store knows ([KeyFinder]). SharedWith are the other keys that connected the
// same account: their tokens do not work any more, and they have become [StateEnded]. FormerGrants are the accounts that this key had
// before, which [Client.DisconnectFormer] disconnects.
func (c *Client) Finish(ctx context.Context, key string, begun Authorization, callback url.Values) (Connection, error) {
	if begun.State == "" || len(callback["state"]) != 1 || !c.config.Now().Before(begun.ExpiresAt) ||
		subtle.ConstantTimeCompare([]byte(callback.Get("state")), []byte(begun.State)) == 0 {
		return Connection{}, ErrState
	}
	if callback.Get("error") == string(connectsdk.OAuthErrorCodeAccessDenied) {
		return Connection{}, ErrDenied
	}
	code := callback.Get("code")
	if code == "" {
		return Connection{}, errors.New("connect: the callback has neither a code nor the user's no")
	}
	connection, err := c.exchange(ctx, key, code, begun.Verifier)
	if err == nil {
		connection.SharedWith = c.endOthers(ctx, key, connection.GrantID, connection.number()-1)
	}
	return connection, err
}

func (c *Client) exchange(ctx context.Context, key, code, verifier string) (Connection, error) {
	// The lock first: a code works once, and is not spent before there is a place for what it gives.
	lock, err := c.config.Store.Lock(ctx, key)
	if err != nil {
		return Connection{}, err
	}
	defer lock.Unlock()
	former, _ := lock.Load(ctx)      // what cannot be read any more is replaced
	ctx = context.WithoutCancel(ctx) // a browser that leaves now does not cost the tokens that its code gives
	var asked time.Time
	a, err := c.persist(ctx, oauthCall, func(ctx context.Context) (*http.Response, error) {
		asked = c.config.Now()
		return c.api.RequestTokenWithFormdataBody(ctx, connectsdk.TokenRequest{
			GrantType: connectsdk.GrantTypeAuthorizationCode,
			Code:      &code, RedirectUri: &c.config.CallbackURL, CodeVerifier: &verifier,
		}, c.basic)
	})
	if err != nil {
		return Connection{}, err
	}
	if a.status != http.StatusOK {
		return Connection{}, refusal("requestToken", a)
	}
	connection, err := connected(a, asked)
	if err != nil {
		return Connection{}, err
	}
	for _, grant := range append(slices.Clip(former.FormerGrants), former.GrantID) {
		if grant != connection.GrantID && grant != uuid.Nil {
			connection.FormerGrants = append(connection.FormerGrants, grant)
		}
	}
	return connection, c.save(ctx, lock, connection)
}
