// Package ratelimit holds a client to its rate policy (specification section 8): how many activity requests it makes a
// minute, how many of them back to back, and how many at one time, counted over all its users, all three reads and all
// servers.
//
//	decision, err := limiter.Admit(ctx, clientID, policy)
//	if err != nil { … }                  // 503 data_unavailable: without the limiter nobody passes
//	defer decision.Release(ctx)
//	if !decision.Allowed { … }          // 429 rate_limited
//
// Requests a minute and burst are a token bucket: it holds burst requests, refills evenly, and a request that it cannot
// pay for is refused and takes nothing from it. Reads at one time are leases: a request that is paid for, but finds all
// leases taken, is refused and stays paid for. A lease ends with its request, or by itself [LeaseLifetime] after the
// request began, for the case that its server died: so a read must end sooner than that, which the statement time-out
// of package postgres sees to.
//
// What must always hold:
//
//   - in any time span a client is admitted at most burst requests and what refills in that span, over all servers;
//   - it never holds more leases than its policy allows;
//   - a changed policy holds from the next request on: what the bucket holds is cut to the new burst, and what runs
//     already may end;
//   - no clock but that of the database, or of Redis, is asked.
//
// What the specification says not to count (authentication, scope and malformed requests) never reaches this package:
// that is the order of checks at the edge.
package ratelimit
