// Package developers is the site for partners' engineers, under /developers/ on the public listener: a quick start, guides,
// the reference and the contract to download. Beside it are the programs that run a sandbox (programs.go). `make docs` writes the same files to a folder, for any static host.
//
//	pages/*.md ──goldmark──▶ templates/page.html ────▶ <name>.html   the guides
//	api/openapi.yaml ──reference──▶ templates/reference.html ──▶ reference.html, rules.html, the responses in error-codes.html
//	api/sandbox.yaml ──reference──▶ templates/driver.html ─▶ sandbox-driver.html
//	samples/*.md ─────────────────────────────────────▶ the examples of the SDKs in reference.html
//	all of these ─────────────────────────────────────▶ site-index.html, and places.js to search
//	sdk/released ─────────────────────────────────────▶ sdk/connect-1.1.0.tgz, go/…   the SDKs for npm and the go command
//	api/openapi.yaml ─────────────────────────────────▶ openapi.yaml   byte for byte, with the operator's contact; openapi.json
//	pages/changelog.md ───────────────────────────────▶ changelog.atom
//	gen/collections ──────────────────────────────────▶ connect-svc.postman_collection.json, connect-svc.bruno.zip
//	gen/openapi30 ────────────────────────────────────▶ openapi-3.0.yaml   the same in OpenAPI 3.0.3
//
// # Invariants
//
//   - The pages are the same for everybody. They contain nothing of a request or the database, and of the settings only the brand,
//     the service's address, the path of the Go module and, of a sandbox, the file of its certificate authority. They
//     are made once, at start (TestReferenceIsOfTheService, TestBrand).
//   - Links are relative, so that the site works in any folder. Every link and every anchor has a target (TestLinks).
//   - Pages are complete without scripts, and load nothing from other hosts. One script, static/site.js, copies examples, shows them in
//     one language at a time and searches. It runs in a sandbox with an origin of its own, and can store nothing (TestInChromium,
//     TestScriptIsNobodyToOtherPages).
//   - Headings, operations, fields and error codes can be linked to. Neighboring examples in different languages are one example
//     (TestIndex, TestTogether).
//   - Each error code of the contract is explained in pages/error-codes.md, and each of its versions has a date in
//     pages/changelog.md (TestErrorCodes, TestChangelog).
//   - Tests take every example from the Markdown, and compile or run it. The guides agree with the specification and the contract
//     (TestGoExamples, TestTypeScriptExamples, TestQuickStart).
//   - A file with a version in its name never changes (TestServing).
//   - The site serves only GET and HEAD, and knows nothing of the rest of the service (TestServing).
//   - Of a folder with programs only those are served that its SHA256SUMS lists. Few are sent at the same time, of which a network has half
//     (TestReleasedPrograms, TestDownloadsAreBounded).
package developers
