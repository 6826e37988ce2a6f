#!/usr/bin/env bash
# Lints the OpenAPI documents and the workflows: those that redocly.yaml names with Redocly, and the same and what is made of the partners' with
# Spectral. A warning or a hint fails, too. Both linters are kept where .ci/kept says.
set -euo pipefail
cd "$(dirname "$0")/.."

redocly=$(.ci/redocly)
export REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true
"$redocly" lint --max-problems 1000 "$@"
spectral=$(.ci/npm .ci/spectral)
"$spectral/node_modules/.bin/spectral" lint --ruleset .ci/spectral/rules.yaml --fail-severity hint \
  api/openapi.yaml api/operator.yaml api/sandbox.yaml gen/openapi30/openapi-3.0.yaml
"$spectral/node_modules/.bin/spectral" lint --ruleset .ci/spectral/workflows.yaml --fail-severity hint api/workflows.arazzo.yaml
rules=$(mktemp --suffix .yaml)
trap 'rm -f "$rules"' EXIT
sed "s|PACKAGES|$spectral/node_modules|" .ci/spectral/owasp.yaml >"$rules"
"$spectral/node_modules/.bin/spectral" lint --ruleset "$rules" --fail-severity hint api/openapi.yaml
