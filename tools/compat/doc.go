// Package compat finds what breaks a partner's client between two versions of the partner document: a released one,
// api/released/, and the one that is to follow it (decisions, section 5: within version 1 changes only add).
//
// What a client sends is input, what it receives is output, and the two have opposite directions. Input may become
// wider and never narrower: a new optional parameter is fine, a lower maximum is not. Output may become narrower and
// never wider: a field that is always there now is fine, one more field in a closed object, or one more value where the
// document lists all of them, is not. A webhook is the other way round, because the service is the caller there.
// Removing or renaming anything that has a name breaks somebody, in either direction, and so do another status, other
// security, and another text of an error. Prose, examples of what is no error, and extensions are free.
//
// What must always hold: where the check cannot judge a change, it is a break. A keyword that it has no rule for must
// stay as it is.
//
// What it never does: change a document, or read anything but the two that it is given.
package compat
