#!/usr/bin/env bash
# Goes a partner's way from nothing to a user's first steps, in TypeScript and, where there is Go, in Go, and prints how long each part took.
# It needs Node.js and a service, and nothing of this repository: the SDK, the sandbox's program and the lines of the quick start come from
# the service. The sandbox needs PostgreSQL's programs on the machine, or fetches them. It works in an empty folder. The counterpart is a
# sandbox, because there nobody has to click: its driver is the user.
#
#   docs/try-as-partner.sh https://connect.example.com
#   CA_FILE=ca.pem docs/try-as-partner.sh https://127.0.0.1:8443    # a service with a certificate authority of its own, such as a sandbox
set -euo pipefail
service=${1:?usage: docs/try-as-partner.sh https://connect.example.com}
folder=$(mktemp -d)
sandbox=
# The go command makes its module cache read-only.
trap '[ -z "$sandbox" ] || { kill "$sandbox"; wait "$sandbox" || true; }; chmod -R u+w "$folder" && rm -rf "$folder"' EXIT
cd "$folder"
export XDG_CACHE_HOME=$folder/cache GOMODCACHE=$folder/modules npm_config_cache=${npm_config_cache:-$folder/npm} # empty
mkdir typescript go

# trust FILE: beside the authorities that this machine trusts.
trust() {
  cat "$1" ${SSL_CERT_FILE:+"$SSL_CERT_FILE"} >go-authorities.pem
  cat "$1" ${NODE_EXTRA_CA_CERTS:+"$NODE_EXTRA_CA_CERTS"} >node-authorities.pem
  local own
  own=$(npm config get cafile 2>/dev/null) # where npm has a setting of its own, it asks no other
  if [ "$own" != null ]; then
    cat "$1" "$own" >npm-authorities.pem
    export npm_config_cafile=$folder/npm-authorities.pem
  fi
  export SSL_CERT_FILE=$folder/go-authorities.pem NODE_EXTRA_CA_CERTS=$folder/node-authorities.pem
}
[ -z "${CA_FILE:-}" ] || trust "$CA_FILE"

# block PATTERN prints the first block of code of the quick start that has a line like that.
block() {
  awk -v pattern="$1" '
    /^```/ { if (inside && found) { printf "%s", text; exit } inside = !inside; found = 0; text = ""; next }
    inside { text = text $0 "\n"; if ($0 ~ pattern) found = 1 }' quick-start.md |
    sed -e "s|http://127\.0\.0\.1:9090|${driver:-}|g" | grep .
}
now() { node -p 'Date.now()'; }
# timed NAME SCRIPT runs a script of the shell, which must succeed.
timed() {
  local from
  from=$(now)
  bash -euo pipefail -c "$2" >output 2>&1 || { cat output >&2; echo "$1: failed" >&2; exit 1; }
  printf '%-34s %6.1f s\n' "$1" "$(node -p "($(now) - $from) / 1000")"
}
began=$(now)
node -e '
  fetch(process.argv[1]).then(async (answer) => {
    if (!answer.ok) throw new Error(`the service answers ${answer.status}`);
    process.stdout.write(await answer.text());
  })' "$service/developers/quick-start.md" >quick-start.md

timed 'TypeScript: npm install' "cd typescript; $(block '^npm install')"
timed 'the sandbox is fetched' "cd typescript; $(block '^npx ') --path"
program=$(tail -n 1 output)
from=$(now)
"$program" sandbox --output json --listen 127.0.0.1:0 --private-listen 127.0.0.1:0 >sandbox.json &
sandbox=$!
until [ -s sandbox.json ]; do kill -0 "$sandbox"; sleep 0.05; done
printf '%-34s %6.1f s\n' 'the sandbox is ready' "$(node -p "($(now) - $from) / 1000")"

# What a registration would tell, and what only a sandbox has: its certificate authority, and a user.
node -e '
  const { base_url, ca_file, driver_url, client, users } = JSON.parse(require("fs").readFileSync("sandbox.json", "utf8"));
  const known = {
    BASE_URL: base_url, CA_FILE: ca_file, DRIVER: driver_url, CLIENT_ID: client.client_id, CLIENT_SECRET: client.client_secret,
    CALLBACK_URL: client.callback_url, USER: users.find((user) => user.kind === "active").user_id,
  };
  for (const [name, value] of Object.entries(known)) console.log(`CONNECT_${name}=${value}`);' >sandbox.env
while IFS= read -r setting; do export "${setting?}"; done <sandbox.env
driver=$CONNECT_DRIVER
block 'from "connect-svc-sdk"' >typescript/hello.mjs
timed 'TypeScript: the first steps read' "cd typescript; $(block '^NODE_EXTRA_CA_CERTS=')"
grep ' steps$' output
printf '%-34s %6.1f s\n' 'from nothing' "$(node -p "($(now) - $began) / 1000")"

type -P go >/dev/null || exit 0
began=$(now)
block '^package main' >go/hello.go
timed 'Go: go get' "cd go; $(block '^go get')"
timed 'Go: the first steps read' "cd go; $(block '^go run')"
grep ' steps$' output
printf '%-34s %6.1f s\n' 'from nothing' "$(node -p "($(now) - $began) / 1000")"
