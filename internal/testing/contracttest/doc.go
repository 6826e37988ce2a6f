// Package contracttest holds every answer that a test receives against the document, api/openapi.yaml: its status, each
// of its headers, its body, and that an error is one of those that the document gives as examples, word for word. What
// is not documented fails the test.
//
//	client := &http.Client{Transport: contracttest.Transport(t, server.Client().Transport)}
//
// Requests that are no operation of the document must be answered 404, in the shape that belongs to their path
// (decisions, section 2). Pages for browsers are no part of the document and pass unchecked.
//
// [OperatorTransport] does the same with api/operator.yaml, [SandboxTransport] with api/sandbox.yaml.
package contracttest
