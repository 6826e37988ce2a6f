// Package partner is an example of a company that uses the service: the backend and the pages of a walking club whose
// members connect their activity.
//
// It is written as a partner would write it, against the partner API alone: of the service it imports nothing but the
// generated client. Read it in this order:
//
//   - connect.go sends a browser away to authorize and takes it back: state and PKCE (specification 5.3).
//   - tokens.go exchanges, refreshes, revokes and disconnects: one refresh at a time, and a refresh token that was
//     once sent is never sent again (specification 5.4).
//   - read.go reads the three datasets, all pages of them.
//   - patience.go waits where the service asks for it, for all requests of the backend together (specification 7.4, 8).
//   - webhook.go receives events: verified, put aside, answered; then worked on, each once and none that is outdated.
//   - store.go keeps the tokens in a file that only its owner can read. A company would encrypt them (specification 5.5).
//
// The rest is its web page. No token and no grant_id ever goes to a browser.
package partner
