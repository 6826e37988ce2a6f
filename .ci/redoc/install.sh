#!/usr/bin/env bash
# Prints where the Redoc of package-lock.json lies. It is kept under bin/, which git ignores; what is missing is fetched.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."

tools=$PWD/bin/redoc-$(cat "$here/package.json" "$here/package-lock.json" | sha256sum | cut -c1-16)
if [ ! -e "$tools" ]; then
  # Several may come here at the same time: each fetches its own copy, and the first puts it in place whole.
  mkdir -p bin
  fetched=$(mktemp -d bin/redoc.XXXXXX)
  trap 'rm -rf "$fetched"' EXIT
  cp "$here/package.json" "$here/package-lock.json" "$fetched"
  # The bundle holds all that it needs: its peers (React and the like) are not fetched.
  npm ci --silent --no-fund --no-audit --ignore-scripts --legacy-peer-deps --omit=peer --prefix "$fetched" >&2
  mv -T "$fetched" "$tools" 2>/dev/null || [ -e "$tools" ]
fi
echo "$tools/node_modules/redoc"
