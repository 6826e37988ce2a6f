// Package browser serves the pages that a user sees: the way from /oauth/authorize over sign-in to the decision
// (specification 4.2, 4.11), and the account pages, where a user sees and ends their connections.
//
//	GET /oauth/authorize ─303─▶ /authorize/{request}/sign-in ─▶ …/code ─▶ …/consent ─303─▶ the callback
//	GET /account ─303─▶ /account/sign-in ─▶ /account/code ─▶ /account ─▶ …/disconnect ─▶ /account
//
// What must always hold:
//
//   - A request belongs to the browser that opened it. Its secret lies in one cookie, of which the domain knows the
//     hash; every page and every form names it. Another browser, a request that has ended and one that never was get
//     the same error page.
//   - A session of the account pages is one cookie too, and ends by the database's clock. What it lists and ends is its
//     own user's, always; nothing of an authorization request signs in there, and the other way around.
//   - Nothing is ever sent to the callback but a decision of the user (specification 7.1). Every error is a page.
//   - A form is taken only from our own pages: the cookie is SameSite, and http.CrossOriginProtection looks at
//     Sec-Fetch-Site. What it holds is bounded, known, said once and free of NUL.
//   - Every page is complete without scripts and carries the headers of headers.go, whatever its status.
//   - Nothing on a page, or in its time, tells whether an address has an account.
//
// What it never does: decide. The rules are those of the packages oauth and account; this one shows their answers.
package browser
