// Package connect is what a partner's backend needs beside the generated client: it takes a user through the
// authorization in the browser, keeps the tokens fresh, reads the three datasets and ends connections, by the rules that
// the specification sets for clients.
//
// A backend makes one [Client] when it starts and names each connection by a key of its own choice, such as the id of
// its user:
//
//	client, err := connect.New(connect.Config{
//		BaseURL:      "https://connect.example.com",
//		ClientID:     os.Getenv("CONNECT_CLIENT_ID"),
//		ClientSecret: os.Getenv("CONNECT_CLIENT_SECRET"),
//		CallbackURL:  "https://partner.example/callback",
//		Scopes:       []connectsdk.Scope{connectsdk.ScopeDailyStepsRead},
//		Store:        store, // pgstore.New(db, key), or one of your own
//	})
//
// When a user presses "Connect": [Client.Begin]; keep the result in the user's session and redirect to its URL. When the
// browser comes back to the callback: take it out of the session and give it to [Client.Finish]. From then on read with
// [Client.StepDays], [Client.CyclingDays] and [Client.CyclingActivities], loops over any number of days, or with [Client.DailySteps] and
// [Client.CyclingDaily] of 31 days, and stop with [Client.Revoke] or [Client.Disconnect]. Before the process ends call [Client.Wait].
//
// # Refreshing
//
// Access tokens live for minutes; they are refreshed when a read needs it. At most one refresh of a connection runs at a
// time, in this process and, with a [Store] whose locks reach that far, in all. The store notes
// durably that a refresh token is on its way before it leaves, so that not even a crash has it sent twice. It does not
// end with the caller's context, for a refresh that is cut off costs the connection.
//
// After a timeout, a broken connection, a 5xx or an answer that cannot be read nobody knows whether the refresh token was
// used up. Then, as after invalid_grant, the user must connect again, and every call says so with [ErrReconnect]
// (specification 5.4). Only where it is certain that the token was not used up does it stay:
//
//   - The request was not handed to a connection: until it is dialled, through a proxy if there is one, and the handshake of TLS is done
//     with a certificate that verifies, nothing has left.
//   - HTTP/2 says that nobody processed it: REFUSED_STREAM, or a GOAWAY whose last stream is before it.
//   - The service refused the request itself with its own 400 or 401 other than invalid_grant.
//   - The service answered Connect-Outcome: not-attempted.
//
// Then the call fails with the cause, and the next one sends the token. After the last of these it is sent again by itself when
// Retry-After has passed, until it was sent MaxTries times or 90 seconds have passed.
//
// # Retrying
//
// Reads are repeated after a 429, when Retry-After has passed, for which all reads of the Client wait together; after a
// 5xx or a failure of the network with exponential backoff and jitter; and once after a 401, with a new access token
// (specification 7.4). An exchange, a revocation and a disconnect are repeated after a 5xx (specification 7.3), a refresh
// only as said above.
//
// # Pace
//
// Reads wait so that the service has no reason to refuse them. Each answer says how fast the budget of the registration refills and what
// is left of it; reads leave one by one, as fast as is left, and at the pace of the refill when little is. How many run at one time
// adapts, up to ConcurrentReads. Several processes with one [Store] that is a [Pacer], as package pgstore is, take turns; others share the
// budget less evenly. Give no process a share by hand.
//
// # Two users with one account, one user with two
//
// Two of your users may connect the same account of the service. There is one connection then: the tokens of the user who connected
// first end when the other one connects. [Client.Finish] names the first in SharedWith, and marks them [StateEnded]: show them
// "Connect again", which ends the other one's, or ask whose account it is. [Client.Disconnect] of the one would end the other, and refuses
// with a [*SharedError]; [Client.Forget] deletes the one's part, and [Client.DisconnectShared] ends it for all.
//
// A user may connect again with another account. The connection to the former one stays open at the service, in the list of that
// person, until you end it: Finish names it in FormerGrants, and [Client.DisconnectFormer] ends it. Disconnect does so, too.
//
// # Webhooks
//
// Package connect.invalid/connect-go/webhook verifies them. Give the version of a connection.revoked to [Client.Ended].
package connect
