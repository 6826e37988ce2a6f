#!/usr/bin/env bash
# Prints the folder in which the clients of package-lock.json are installed. It lies under bin/, which git ignores; what is
# missing is fetched.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../../../.."

version=$(sha256sum "$here/package-lock.json" | cut -c1-12)
clients=bin/clients-$version

if [ ! -d "$clients" ]; then
  # Several tests may come here at the same time: each fetches its own copy, and the first puts it in place whole.
  mkdir -p bin
  fetched=$(mktemp -d bin/clients.XXXXXX)
  trap 'rm -rf "$fetched"' EXIT
  cp "$here/package.json" "$here/package-lock.json" "$fetched"
  npm ci --silent --no-fund --no-audit --ignore-scripts --prefix "$fetched" >&2
  mv -T "$fetched" "$clients" 2>/dev/null || [ -d "$clients" ]
fi
echo "$PWD/$clients"
