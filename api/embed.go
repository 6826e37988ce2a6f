// Package api holds the contracts that people write. The programs are generated from them; this is for handing them out.
package api

import _ "embed"

// Partner is the partner API, openapi.yaml, byte for byte.
//
//go:embed openapi.yaml
var Partner []byte

// Operator is the operator API, operator.yaml, byte for byte.
//
//go:embed operator.yaml
var Operator []byte

// Sandbox is the driver of a sandbox, sandbox.yaml, byte for byte.
//
//go:embed sandbox.yaml
var Sandbox []byte

// Workflows describes how partners use the operations of [Partner], with those of [Sandbox] in place of users: workflows.arazzo.yaml, byte for
// byte.
//
//go:embed workflows.arazzo.yaml
var Workflows []byte
