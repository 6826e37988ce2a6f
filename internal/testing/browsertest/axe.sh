#!/usr/bin/env bash
# Prints where axe-core lies, which checks the accessibility of pages in the tests. It is one npm package without
# dependencies, kept where .ci/kept says; what is missing is fetched.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

version=4.14.1
kept=$(.ci/kept)
axe=$kept/axe-core-$version.min.js

if [ ! -e "$axe" ]; then
  # Several tests may come here at the same time: each fetches its own copy, and puts it in place whole.
  fetched=$(mktemp -d "$kept/axe-core.XXXXXX")
  trap 'rm -rf "$fetched"' EXIT
  npm install --silent --no-fund --no-audit --no-save --prefix "$fetched" "axe-core@$version" >&2
  mv "$fetched/node_modules/axe-core/axe.min.js" "$axe"
fi
echo "$axe"
