// Package ratelimit enforces the rate policy of a client (specification section 8): its activity requests a minute, back to back, and
// at one time, counted over all its users, all three reads and all servers.
//
//	decision, err := limiter.Admit(ctx, clientID, policy, now)
//	if err != nil { … }                  // 503 data_unavailable: without the limiter no request passes
//	defer decision.Release(ctx)
//	if !decision.Allowed { … }          // 429 rate_limited
//
// Requests a minute and burst form a token bucket, which holds burst requests and refills evenly. A request is refused, and takes
// nothing, if the bucket holds less than one. Reads at one time are leases. A request that the bucket paid for is refused if no lease
// is free, and stays paid for. A lease ends with its request, or [LeaseLifetime] after the request began if its server died; a read
// must therefore end sooner. While few leases are used, a server stores the end of one a little later, with the client's next admission.
//
// The rule, in rule.go, is a pure function of policy, state and time. [Limiter] applies it. A [Store], which is PostgreSQL or
// Redis, stores one small text for each client, for all servers; it only compares and sets. A server asks the store one question
// about a client at a time, and the next question decides all requests that have arrived in the meantime.
//
// # Invariants
//
//   - In any span of time a client is admitted at most burst requests plus those that refill in that span, over all servers, and never
//     holds more leases than its policy allows (TestRuleBounds, TestPostgres, TestRedis).
//   - A lease that is released twice, because the store's answer was lost, releases no other (TestReleaseOfOneOfTwo).
//   - Deciding requests together has the outcome of deciding them in turn (TestRuleTogetherIsInTurn).
//   - A release waits for a moment, only while the client uses less than half of its leases, and refuses nobody: a request that would be
//     refused for leases of other servers is decided once the releases that waited are stored (TestReleaseWaits,
//     TestRefusalWaitsForOtherServers).
//   - A changed policy applies to the next request: the bucket is cut to the new burst, and running reads may complete (TestPostgres).
//   - A state of a clock that was ahead refuses nobody for longer than its bucket takes to fill, or five seconds
//     (TestStateOfAClockThatWasAhead).
//   - A state of another version is never read as one of this program's: until it says nothing more, reads of its client get an error
//     (TestPostgres, TestRedis, TestStateOfAnotherVersionThatWasAhead).
//   - If the address of Redis leads to another server, the limiter decides there, although the old one keeps its connections and answers: a
//     refusal that the state of a server explains, and a time limit, end the connections (TestRedisSwitchover, TestRedisRefusals).
//   - A state that is lost after it says nothing more changes no decision (TestRuleFullAfter).
//
// The only clock is the database's: now is when the database authenticated the request.
//
// Requests that the specification does not count (those refused for authentication or scope, and malformed ones) never reach
// this package: the edge refuses them first.
package ratelimit
