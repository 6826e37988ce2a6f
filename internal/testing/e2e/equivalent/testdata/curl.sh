#!/bin/sh
# curl, with the options that are given. It prints the reply as JSON.
set -eu
ask=$(cat)
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
get() { printf %s "$ask" | jq -r "$1"; }
get '.fields[] | .[0] + ": " + .[1]' >"$folder/fields"
get .body | tr -d '\n' >"$folder/body"
set -- "$@" --header "@$folder/fields"
if [ -s "$folder/body" ]; then
	set -- "$@" --data-binary "@$folder/body"
else
	case $* in *chunked*) set -- "$@" --data-binary "@$folder/body" --header Content-Type: ;; esac
fi
curl --silent --show-error --path-as-is --cacert "$CONNECT_ROOTS" --connect-to "$CONNECT_HOST:443:$CONNECT_ADDRESS" \
	--request "$(get .method)" --output "$folder/answer" --dump-header "$folder/head" "$@" "https://$CONNECT_HOST$(get .path)"
touch "$folder/answer"
python3 - "$folder" <<'END'
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
heads = [head for head in (folder / "head").read_bytes().decode("latin1").split("\r\n\r\n") if head]
first, *lines = heads[-1].split("\r\n")
print(json.dumps({"status": int(first.split(" ")[1]), "headers": [line.split(": ", 1) for line in lines],
                  "body": (folder / "answer").read_bytes().decode("latin1")}))
END
