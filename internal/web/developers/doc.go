// Package developers is the site for partners' engineers, under /developers/ on the public listener: a quick start, guides,
// the reference and the contract to download. `make docs` writes the same files to a folder, for any static host.
//
//	pages/*.md ──goldmark──▶ templates/page.html ────▶ <name>.html   the guides
//	gen/redoc, static/reference.js ───────────────────▶ reference.html   drawn in the browser from openapi.yaml
//	api/openapi.yaml ─────────────────────────────────▶ openapi.yaml   byte for byte
//
// # Invariants
//
//   - The pages are the same for everybody: they contain nothing of a request, a setting or the database. They are made
//     once, at start.
//   - Links are relative, so that the site works in any folder. Every link and every anchor leads somewhere.
//   - Pages are complete without scripts, except the reference, and none asks another host for anything.
//   - Every example runs or compiles as it stands in the Markdown: tests take it from there. The guides agree with the
//     specification and the contract.
//   - The site serves GET and HEAD only, and knows nothing of the rest of the service.
package developers
