package console

import (
	"testing"

	"connect-svc/internal/testing/edgetest"
)

// A partner's tokens leaked: all stop working, its users connect again, and it stays what it was.
func TestRevokeAllTokens(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner, tokens := f.ConnectNew(t, "Ride Club")
	_, others := f.ConnectNew(t, "Walk Club")
	v := f.signedIn(t, edgetest.AdaToken)
	path := pathOf(partner.ID)
	lapsed := f.DB.User(t) // revoked, too: the partner gets an event for it
	f.DB.Exec(t, `insert into connections (user_id, client_id, grant_id, version, state, scopes, history_from, authorized_at, refresh_generation,
		refresh_hash, refresh_deadline) values ($1, $2, gen_random_uuid(), 1, 'authorized', 1, '2025-03-01', '2025-03-01', 1, sha256('token'), '2025-06-01')`,
		lapsed.ID, partner.ID)
	v.shows(v.Get(path+"/revoke"), "Revoke all tokens of Ride Club?", "Connections that are revoked: 2.")
	v.goes(v.Post(path+"/revoke"), path+"?done=partner_revoked")
	v.shows(v.Get(path+"?done=partner_revoked"), "Ride Club", "All tokens of the partner are revoked.")
	if _, err := f.config.OAuth.Authenticate(t.Context(), tokens.AccessToken); err == nil {
		t.Error("an access token of the partner still works")
	}
	if _, err := f.config.OAuth.Refresh(t.Context(), edgetest.Credentials(partner), tokens.RefreshToken); err == nil {
		t.Error("a refresh token of the partner still works")
	}
	if _, err := f.config.OAuth.Authenticate(t.Context(), others.AccessToken); err != nil {
		t.Errorf("another partner's access token: %v", err)
	}
	v.shows(v.Get(connectionPath(f.User.ID, partner.ID)), f.User.Email+" – Ride Club", "ada revoked all tokens of Ride Club at 2026-03-10 12:34")
	f.acts(t, partner.ID, "user consent.allowed", "client connection.authorized", "ada client.tokens_revoked", "ada connection.revoked", "ada connection.revoked")
}
