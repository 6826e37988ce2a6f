#!/usr/bin/env bash
# Lints the OpenAPI documents that redocly.yaml names; a warning fails, too. The linter is one self-contained npm package,
# kept under bin/, which git ignores.
set -euo pipefail
cd "$(dirname "$0")/.."

version=2.77.0
dir=bin/redocly-$version

if [ ! -x "$dir/node_modules/.bin/redocly" ]; then
  npm install --silent --no-fund --no-audit --no-save --prefix "$dir" "@redocly/cli@$version"
fi
export REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true
exec "$dir/node_modules/.bin/redocly" lint --max-problems 1000 "$@"
