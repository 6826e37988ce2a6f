// Package site has what all pages share: their templates in each language, their styles and images, and how forms are read.
//
// # Invariants
//
//   - A page is rendered completely before its first byte is sent (TestPageThatPanics).
//   - Styles and images have names with a hash of their content, so that browsers may cache them forever (pages.TestStatic).
//   - Each field of a form is known, occurs once, is valid UTF-8 and contains no NUL, which PostgreSQL refuses (pages.TestForms).
package site
