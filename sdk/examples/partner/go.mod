module connect.invalid/examples/partner

go 1.25.0

// A go.mod of your own has the SDK's version instead, which `go get connect.invalid/connect-go` writes there.
replace connect.invalid/connect-go => ../../go

require connect.invalid/connect-go v0.0.0

require (
	github.com/google/go-cmp v0.7.0
	github.com/google/uuid v1.6.0
	github.com/standard-webhooks/standard-webhooks/libraries v0.0.1
)

require (
	github.com/apapsch/go-jsonmerge/v2 v2.0.0 // indirect
	github.com/oapi-codegen/runtime v1.8.0 // indirect
)
