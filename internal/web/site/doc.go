// Package site is what the pages that people see in a browser share: their templates in each language, their styles and
// images, and how a form is read.
//
// # Invariants
//
//   - A page is rendered completely before its first byte is sent.
//   - Styles and images are served under names that contain a hash of their content, so that browsers may cache them for ever.
//   - Of a form, each field is known, occurs once, is valid UTF-8 and contains no NUL, which PostgreSQL refuses.
package site
