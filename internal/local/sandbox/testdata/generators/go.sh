#!/usr/bin/env bash
# Makes the Go clients of the documents with oapi-codegen and the options of the developers' guide, installed as a partner would, and compiles them with
# the program that uses the first and, for its tokens, the code of the developers' guide.
# Usage: go.sh FOLDER-OF-OAPI-CODEGEN DOCUMENT SANDBOX-DOCUMENT EMPTY-FOLDER
set -euo pipefail
bin=$1 document=$2 sandbox=$3 out=$4
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../../../.." && pwd)

GOBIN=$bin go install github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2
cd "$out"
cp "$here/go/main.go" .
{
  printf 'package main\n\nimport (\n\t"context"\n\t"fmt"\n\t"net/http"\n\t"os"\n\n\t"partner/api"\n)\n\n'
  awk '/^```go$/ { inside = 1; next } /^```$/ { inside = 0 } inside && /^func exchange\(/ { found = 1 } !inside { found = 0 } found' \
    "$root/internal/edge/developers/pages/consent.md"
} >tokens.go
cp "$root/sdk/go/go.sum" .
sed 's/^module .*/module partner/' "$root/sdk/go/go.mod" >go.mod
mkdir api sandbox
"$bin/oapi-codegen" -generate types,client,skip-prune -package api -o api/api.go "$document"
"$bin/oapi-codegen" -generate types,client -package sandbox -o sandbox/sandbox.go "$sandbox"
go build -trimpath ./sandbox
go build -trimpath -o partner .
