// Package browsertest starts a real Chromium for the tests of pages.
//
// A test gets a browser of its own and tabs in it, each like a fresh private window; what the page's own console
// would show as an error, a refusal by the content security policy above all, is collected for the test to fail on.
// A machine without Chromium fails the test: pages that no browser has shown are not tested.
//
// The package is for tests only and knows nothing of the service.
package browsertest
