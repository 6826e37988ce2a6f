// Package contracttest checks every response that a test receives against the document, api/openapi.yaml: its status, each of
// its headers, its body, and that an error is word for word one of those that the document gives as examples. Anything undocumented
// fails the test.
//
//	client := &http.Client{Transport: contracttest.Partner.Transport(t, server.Client().Transport)}
//
// A request for an operation that the document lacks must get a 404, in the shape that belongs to its path (decisions, section 2).
// The document does not cover pages for browsers; they pass unchecked.
//
// [Operator] does the same with api/operator.yaml, [Sandbox] with api/sandbox.yaml.
//
// The package does not use the checks of internal/edge/contract: it tests them.
package contracttest
