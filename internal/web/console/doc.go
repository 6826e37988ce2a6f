// Package console is the operator's console: /console of the private listener, where people support users and partners and see how
// the service is. It does what the operator API does, for a browser.
//
//	GET /console ─303─▶ /console/sign-in ─▶ /console/users ─▶ …/{user} ─▶ …/delete ─▶ /console/users
//
// # Invariants
//
//   - Nobody sees anything without a session, which an operator token starts. One cookie holds its key, SameSite=Strict.
//   - A GET changes nothing. A form is accepted only from our own pages (http.CrossOriginProtection), and from nobody whose token is
//     for reading alone. The listener has checked the Host.
//   - An act is a page that says what will happen, in numbers, and a form on it. It stands in the audit log under the name of
//     who did it.
//   - A secret is shown once, in the answer to the form that made it, and is stored by no browser.
//   - Every page is complete without scripts, at 320 px, in light and dark. A drawing is there in words and numbers, too.
//   - What users, partners and operators have written is text, wherever it is shown.
//   - A page asks for a bounded number of rows, in a bounded time, of an index.
//
// The package decides nothing: the rules are those of the domains.
package console
