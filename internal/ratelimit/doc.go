// Package ratelimit holds a client to its rate policy (specification section 8): how many activity requests it makes a
// minute, how many of them back to back, and how many at one time, counted over all its users, all three reads and all
// servers.
//
//	decision, err := limiter.Admit(ctx, clientID, policy, now)
//	if err != nil { … }                  // 503 data_unavailable: without the limiter nobody passes
//	defer decision.Release(ctx)
//	if !decision.Allowed { … }          // 429 rate_limited
//
// Requests a minute and burst are a token bucket: it holds burst requests, refills evenly, and a request that it cannot
// pay for is refused and takes nothing from it. Reads at one time are leases: a request that is paid for, but finds all
// leases taken, is refused and stays paid for. A lease ends with its request, or by itself [LeaseLifetime] after the
// request began, for the case that its server died: so a read must end sooner than that.
//
// rule.go is the rule: a pure function of policy, state and time. [Limiter] asks it, and has a [Store] keep the state,
// which is one small text for each client, for all servers: in PostgreSQL or in Redis, which only compare and set.
// A server has one question under way for a client, and what comes meanwhile is decided together by the next one.
//
// What must always hold:
//
//   - in any time span a client is admitted at most burst requests and what refills in that span, over all servers;
//   - it never holds more leases than its policy allows;
//   - a changed policy holds from the next request on: what the bucket holds is cut to the new burst, and what runs
//     already may end;
//   - no clock but the database's is asked: now is when it authenticated the request.
//
// What the specification says not to count (authentication, scope and malformed requests) never reaches this package:
// that is the order of checks at the edge.
package ratelimit
