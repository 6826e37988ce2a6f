#!/usr/bin/env bash
# Makes the TypeScript clients of a document with their default options, and compiles them with the programs that use them.
# What the declarations of libraries say is not checked, which would take longer than all else.
# Usage: typescript.sh DOCUMENT EMPTY-FOLDER
set -euo pipefail
document=$1 out=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
generators=$("$here/../../../../../.ci/npm" "$here")
bin=$generators/node_modules/.bin
export ORVAL_TELEMETRY_DISABLED=1 DO_NOT_TRACK=1

cd "$out"
ln -s "$generators/node_modules" node_modules
cp "$here"/programs/*.ts .
"$bin/openapi-typescript" "$document" --output schema.ts
"$bin/openapi-ts" --input "$document" --output hey --client @hey-api/client-fetch
"$bin/orval" --input "$document" --output orval.ts --client fetch
"$bin/swagger-typescript-api" generate --path "$document" --output . --name api.ts
"$bin/tsc" --skipLibCheck --strict --target es2023 --lib es2023,dom,dom.iterable --module commonjs --moduleResolution node10 --types node \
  --outDir compiled ./*.ts
