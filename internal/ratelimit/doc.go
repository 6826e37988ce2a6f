// Package ratelimit holds a client to its rate policy (specification section 8): how many activity requests it makes a
// minute, how many of them back to back, and how many at one time, counted over all its users, all three reads and all
// servers.
//
//	decision, err := limiter.Admit(ctx, clientID, policy, now)
//	if err != nil { … }                  // 503 data_unavailable: without the limiter nobody passes
//	defer decision.Release(ctx)
//	if !decision.Allowed { … }          // 429 rate_limited
//
// Requests a minute and burst are a token bucket, which holds burst requests and refills evenly. A request that the bucket
// cannot pay for is refused and takes nothing. Reads at one time are leases. A request that is paid for but finds all leases taken
// is refused and stays paid for. A lease ends with its request, or [LeaseLifetime] after the request began, in case its server
// died; a read must therefore end sooner.
//
// The rule, in rule.go, is a pure function of policy, state and time. [Limiter] applies it. A [Store], which is PostgreSQL or
// Redis, keeps one small text for each client, for all servers; it only compares and sets. A server asks the store one question
// about a client at a time, and the next question decides all requests that have arrived in the meantime.
//
// # Invariants
//
//   - In any span of time a client is admitted at most burst requests and what refills in that span, over all servers.
//   - It never holds more leases than its policy allows.
//   - A changed policy holds from the next request on: the bucket is cut to the new burst, and running reads may complete.
//   - No clock but the database's counts: now is when the database authenticated the request.
//
// Requests that the specification does not count (those refused for authentication or scope, and malformed ones) never reach
// this package: the edge refuses them before.
package ratelimit
