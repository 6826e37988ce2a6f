// Package partner is an example of a partner of the service: the backend and the pages of a walking club whose members
// connect their activity.
//
// It is written like a partner's own code, against the partner API: of the service it imports only the SDK,
// package connect.invalid/connect-go/connect, which keeps the rules for clients (specification 5.4, 7.4, 8).
//
// # To copy
//
// Take connect.go. It connects users and reads their activity. It compiles by itself and says REPLACE where your own sessions
// and sign-in belong. Then make its two values:
//
//	client, err := connect.New(connect.Config{ …, Store: pgstore.New(db, key) })
//	connector := &Connector{Client: client}
//
// Partner.connect and Partner.callback in partner.go are the two handlers of a web server around it. For the webhooks take
// package connect.invalid/connect-go/examples/webhooks, whose inbox is a table.
//
// # The rest is the demo
//
//   - partner.go, session.go, page.go and chart.go are its web page.
//   - story.go tells the events in the plain words of story.txt. record.go keeps the requests and responses for it, and mask.go
//     removes the credentials first. No token, secret or grant_id ever reaches a browser (specification 5.5).
//   - inbox.go shows the webhooks and handles them like that package, with an inbox in memory.
//   - Its tokens are encrypted in package pgstore's table, as in production.
package partner
