// Package chromium finds the Chromium of this machine, opens a page in it, and measures pages.
//
// The tests of pages and `brand preview --check` have the same browser and the same measurements. A page that is shown drives itself by
// its script, so that the program needs no library that drives browsers.
package chromium
