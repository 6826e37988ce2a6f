// Package compat finds what breaks a partner's client between two versions of the partner document: a released one in
// api/released/, and the one that is to follow it (decisions, section 5: within version 1 changes only add).
//
// A client sends input and receives output. Input may become wider and never narrower: a new optional parameter is fine, a lower
// maximum is not. Output may become narrower and never wider: a field that is now always present is fine; one more field in a
// closed object, or one more value where the document lists all of them, is not. In a webhook the roles are reversed, because the
// service is the caller. Removing or renaming anything that has a name is a break in either direction, and so is another status,
// other security, or another text of an error. Prose, examples of anything but errors, and extensions may change.
//
// oasdiff judges most changes. This package prepares the documents for it (rewrite.go), makes some of its rules stricter
// (compat.go), and adds those that it lacks (rules.go).
//
// # Invariants
//
//   - A keyword that oasdiff compares and has no rule for must stay as it is (TestPlanted).
//   - It reads nothing but the two documents (TestFilesThatCannotBeRead).
package compat
