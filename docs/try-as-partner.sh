#!/usr/bin/env bash
# Goes a partner's way from nothing to a user's first steps, in TypeScript and in Go, and prints how long each part took. It
# needs Node.js, Go and a running sandbox, and works in an empty folder, with the lines and the programs of the quick start as
# they stand there. The counterpart is a sandbox, and not the demo, because there nobody has to click: its driver is the user.
#
#   connect-svc sandbox          # in another terminal
#   docs/try-as-partner.sh       # or with the driver's address: docs/try-as-partner.sh http://127.0.0.1:9090
set -euo pipefail
driver=${1:-http://127.0.0.1:9090}
page=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/internal/web/developers/pages/quick-start.md
folder=$(mktemp -d)
# The go command makes its module cache read-only.
trap 'chmod -R u+w "$folder" && rm -rf "$folder"' EXIT
cd "$folder"

# What a registration would tell, and what only a sandbox has: its certificate authority, and a user.
node --input-type=module - "$driver/sandbox" >sandbox.env <<'END_OF_PROGRAM'
const answer = await fetch(process.argv[2]);
if (!answer.ok) throw new Error(`the driver answers ${answer.status}`);
const { base_url, ca_file, client, users } = await answer.json();
const known = {
  BASE_URL: base_url, CA_FILE: ca_file, CLIENT_ID: client.client_id, CLIENT_SECRET: client.client_secret,
  CALLBACK_URL: client.callback_url, USER: users.find((user) => user.kind === "active").user_id,
};
for (const [name, value] of Object.entries(known)) console.log(`CONNECT_${name}=${value}`);
END_OF_PROGRAM
while IFS= read -r setting; do export "${setting?}"; done <sandbox.env

# The authority is trusted beside those that this machine trusts on the way to other packages.
cat "$CONNECT_CA_FILE" ${SSL_CERT_FILE:+"$SSL_CERT_FILE"} >go-authorities.pem
cat "$CONNECT_CA_FILE" ${NODE_EXTRA_CA_CERTS:+"$NODE_EXTRA_CA_CERTS"} >node-authorities.pem
export SSL_CERT_FILE=$folder/go-authorities.pem NODE_EXTRA_CA_CERTS=$folder/node-authorities.pem
own=$(npm config get cafile 2>/dev/null) # where npm has a setting of its own, it asks no other
if [ "$own" != null ]; then
  cat "$CONNECT_CA_FILE" "$own" >npm-authorities.pem
  export npm_config_cafile=$folder/npm-authorities.pem
fi

# block PATTERN prints the first block of code of the quick start that has a line like that, for this sandbox.
block() {
  awk -v pattern="$1" '
    /^```/ { if (inside && found) { printf "%s", text; exit } inside = !inside; found = 0; text = ""; next }
    inside { text = text $0 "\n"; if ($0 ~ pattern) found = 1 }' "$page" |
    sed -e "s|https://connect\.invalid|$CONNECT_BASE_URL|g" -e "s|http://127\.0\.0\.1:9090|$driver|g" | grep .
}
now() { node -p 'Date.now()'; }
began=$(now)
# timed NAME SCRIPT runs a script of the shell, which must succeed.
timed() {
  local from
  from=$(now)
  bash -euo pipefail -c "$2" >output 2>&1 || { cat output >&2; echo "$1: failed" >&2; exit 1; }
  printf '%-34s %6.1f s\n' "$1" "$(node -p "($(now) - $from) / 1000")"
}

export GOMODCACHE=$folder/modules # empty
mkdir typescript go
block 'from "connect-svc-sdk"' >typescript/hello.mjs
block '^package main' >go/hello.go
timed 'TypeScript: npm install' "cd typescript; $(block '^npm install')"
timed 'TypeScript: the first steps read' 'cd typescript; node hello.mjs'
grep ' steps$' output
timed 'Go: go get' "cd go; $(block '^go get')"
timed 'Go: the first steps read' "cd go; $(block '^go run')"
grep ' steps$' output
printf '%-34s %6.1f s\n' 'both, from nothing' "$(node -p "($(now) - $began) / 1000")"
