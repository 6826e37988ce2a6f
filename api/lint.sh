#!/usr/bin/env bash
# Lints the OpenAPI documents: those that redocly.yaml names with Redocly, and the same and what is made of the partners' with
# Spectral. A warning or a hint fails, too. Both linters are kept where .ci/kept says. Redocly is one self-contained npm package;
# Spectral comes with the packages of its lock file.
set -euo pipefail
cd "$(dirname "$0")/.."

version=2.77.0
installed=$(.ci/kept)/redocly-$version

if [ ! -e "$installed" ]; then
  # As in .ci/npm: the first puts its copy in place whole.
  fetched=$(mktemp -d "$installed.XXXXXX")
  trap 'rm -rf "$fetched"' EXIT
  npm install --silent --no-fund --no-audit --no-save --prefix "$fetched" "@redocly/cli@$version"
  mv -T "$fetched" "$installed" 2>/dev/null || [ -e "$installed" ]
fi
export REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true
"$installed/node_modules/.bin/redocly" lint --max-problems 1000 "$@"
spectral=$(.ci/npm .ci/spectral)
"$spectral/node_modules/.bin/spectral" lint --ruleset .ci/spectral/rules.yaml --fail-severity hint \
  api/openapi.yaml api/operator.yaml api/sandbox.yaml gen/openapi30/openapi-3.0.yaml
