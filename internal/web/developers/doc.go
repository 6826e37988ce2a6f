// Package developers is the site for partners' engineers, under /developers/ on the public listener: a quick start, guides,
// the reference and the contract to download. `make docs` writes the same files to a folder, for any static host.
//
//	pages/*.md ──goldmark──▶ templates/layout.html ──▶ <name>.html   the guides
//	gen/redoc, static/reference.js ───────────────────▶ reference.html   drawn in the browser from openapi.yaml
//	api/openapi.yaml ─────────────────────────────────▶ openapi.yaml   byte for byte
//
// What must always hold:
//
//   - The pages are the same for everybody: nothing of a request, a setting or the database is in them. They are made once,
//     at start.
//   - Links are relative, so that the site works wherever its folder lies. Every link and every anchor leads somewhere.
//   - Pages are complete without scripts, except the reference, and none asks another host for anything.
//   - Every example runs or compiles as it stands in the Markdown: tests take it from there. What the guides say is
//     what the specification and the contract say.
//
// What it never does: answer anything but GET and HEAD, or know the rest of the service.
package developers
