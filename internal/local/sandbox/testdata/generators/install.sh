#!/usr/bin/env bash
# Prints the folder in which the generators of package-lock.json are installed. It lies under bin/, which git ignores; what
# is missing is fetched.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../../../../.."

generators=$PWD/bin/generators-$(cat "$here/package.json" "$here/package-lock.json" | sha256sum | cut -c1-16)
if [ ! -e "$generators" ]; then
  # Several may come here at the same time: each fetches its own copy, and the first puts it in place whole.
  mkdir -p bin
  fetched=$(mktemp -d bin/generators.XXXXXX)
  trap 'rm -rf "$fetched"' EXIT
  cp "$here/package.json" "$here/package-lock.json" "$fetched"
  npm ci --silent --no-fund --no-audit --ignore-scripts --prefix "$fetched" >&2
  mv -T "$fetched" "$generators" 2>/dev/null || [ -e "$generators" ]
fi
echo "$generators"
