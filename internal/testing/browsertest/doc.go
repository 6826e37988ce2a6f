// Package browsertest starts a real Chromium for the tests of pages.
//
// A test gets tabs of a browser that it shares with others, each like a fresh private window. Errors of the page's console, above
// all refusals by the content security policy, are collected and fail the test. On a machine without Chromium the test fails.
//
// The package is for tests only and knows nothing of the service.
package browsertest
