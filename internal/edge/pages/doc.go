// Package pages serves the pages that a user sees: the path from /oauth/authorize through the sign-in to the decision
// (specification 4.2, 4.11), and the account pages, where users see and end their connections.
//
//	GET /oauth/authorize ─303─▶ /authorize/{request}/sign-in ─▶ …/code ─▶ …/consent (─▶ …/disconnect) ─303─▶ the callback
//	GET /account ─303─▶ /account/sign-in ─▶ /account/code ─▶ /account ─▶ …/disconnect ─▶ /account
//	GET /account/receipt/{receipt}
//
// # Invariants
//
//   - A request belongs to the browser that opened it. One cookie holds the browser's secret, of which the domain knows
//     the hash, and every page and form of the request needs it. In another browser no page reveals whose request it is, or
//     whether it exists (TestAnotherBrowser). In its own browser an ended request says why it ended (TestRequestEnds_3_1).
//   - A session of the account pages is one cookie, too, and expires by the database's clock. It lists and ends only its
//     own user's connections. An authorization request signs nobody in to the account pages, nor the other way round
//     (TestAccountSessionEnds_4, TestAccountAndAuthorizationSignInsAreApart_5_3).
//   - The link of a receipt needs no session. Opening it changes nothing, its page shows no address, and it ends no connection that
//     began later (TestReceiptEndsAConnection, TestReceiptSignsABrowserOut). All that do not work look the same (TestReceiptsThatDoNotWork).
//   - A form that is sent twice has the same result twice, whether or not the browser has kept the first answer (TestFormsTwice).
//   - Only a decision of the user goes to the callback (specification 7.1). Every error is a page (TestAuthorizeErrors_7_2,
//     TestWholeWay_3_1).
//   - A form is accepted only from our own pages: the cookie is SameSite, and site.OwnForms checks
//     Sec-Fetch-Site or Origin. The body is bounded; each field is known, occurs once and contains no NUL (TestForeignForms, TestForms).
//   - Every page is complete without scripts and carries the headers of site.Headers, whatever its status (TestChromiumEveryPage,
//     TestHeaders).
//   - Neither a page nor its timing reveals whether an address has an account (TestUnknownAddress4, TestAccountUnknownAddress_4).
//
// The package decides nothing: the rules are those of packages oauth and account.
package pages
