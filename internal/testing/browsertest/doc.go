// Package browsertest starts a real Chromium for the tests of pages.
//
// A test gets tabs of a browser that it shares with others, each like a fresh private window. What the page's console would
// show as an error, above all a refusal by the content security policy, is collected for the test to fail on. On a machine
// without Chromium the test fails.
//
// The package is for tests only and knows nothing of the service.
package browsertest
