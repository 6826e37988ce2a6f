// Package console is the operator's console, /console of the private listener. People support users and partners in it and watch the
// service. It does what the operator API does, for a browser. Its pages about one partner are also the portal, /partners of the public
// listener, for engineers of that partner to whom the operator gave a link.
//
//	GET /console ─303─▶ /console/sign-in ─▶ /console ─▶ /console/users ─▶ …/{user} ─▶ …/delete ─▶ /console/users
//
//	GET /partners/{partner}/open/{link} ─POST─▶ /partners/{partner} ─▶ …/webhooks
//
// # Invariants
//
//   - One table, routes, says of each page and act who may ask for it, how long it may take, what is shown before and what it does. A
//     server with a route that has no right or no time does not start (TestRights, TestEveryRouteHasARight, TestTimeOfActs).
//   - The portal shows one partner, and names no user and no operator (TestPortal).
//   - Every page but the sign-in requires a session, which an operator token starts. One cookie holds its key, SameSite=Strict
//     (TestSignIn, TestCookie).
//   - A GET changes nothing, but an export of the audit log is audited. Forms are accepted only from the console's own pages
//     (site.OwnForms), and not from read-only tokens. The listener has checked the Host (TestForgedForms,
//     TestPartnersForReadingAlone, TestAuditCSV).
//   - A page announces each act, in numbers, and has its form. The audit log has the act under the operator's name (TestAdjust,
//     TestDisconnect, TestOffboard).
//   - A secret is shown once, in the answer to the form that created it, and no browser stores it (TestRegister,
//     TestReplaceSecret).
//   - Every page works without scripts, at 320 px, in light and dark. Charts are there in words and numbers, too
//     (TestChromiumPartner, TestChromiumUsage, TestChromiumHostileTexts).
//   - Text that users, partners and operators have written stays text on every page (TestChromiumHostileTexts).
//   - A page reads a bounded number of rows from an index (TestTimelineBehindManyOthers, TestAuditSearchesInParts).
//   - A field is refused in the words of the domain, which the operator API has, too (TestRegister, TestChangeUser).
//
// The package has no rules. They belong to the domains.
package console
