// Package client owns the registrations of partner companies: name, callback, allowance of scopes, rate policy, and the secret that
// authenticates the partner's backend (specification sections 1 and 5.1). One file for each act.
//
// # Invariants
//
//   - A client has exactly one callback, an exact HTTPS address. (TestValidateCallback)
//   - A client's secret is returned once, when it is made. The database holds only its hash. (TestSecret_5_1)
//   - A replaced secret stops working at once, unless the operator lets it work for an overlap of up to 30 days. At most two secrets
//     work at a time. (TestOverlap)
//   - A client's people change nothing: what they request is made when an operator approves it, by the rules of Update, and the log has
//     both names. A client has one request at a time. (TestApprovedChange, TestOpenChange)
//   - An offboarded client never becomes active again. (TestOffboardedAndUnknownClientsStay)
package client
