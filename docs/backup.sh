#!/usr/bin/env bash
# Backs up what the service cannot do without: the database and the keyset. Usage:
#
#   CONNECT_DATABASE_URL=postgres://… CONNECT_KEYSET_FILE=keyset.json docs/backup.sh DIRECTORY
#
# The directory must not exist yet; it is there only when both are in it. Whoever has it can make credentials for every
# user: keep it as you keep the keyset. pg_dump reads one snapshot, so the service may run meanwhile.
set -euo pipefail
umask 077
[ $# -eq 1 ] || { echo "usage: backup.sh DIRECTORY" >&2; exit 2; }
[ ! -e "$1" ] || { echo "backup: $1 exists already" >&2; exit 1; }
# The password goes by the environment: what a program is called with, everybody on the machine can see.
url=${CONNECT_DATABASE_URL:?is not set}
if [[ $url =~ ^([a-z]+://[^:/@?]*):([^@/?]*)@(.*)$ ]]; then
  url="${BASH_REMATCH[1]}@${BASH_REMATCH[3]}"
  PGPASSWORD=$(printf '%b' "${BASH_REMATCH[2]//%/\\x}")
elif [[ $url =~ ^(.*[?\&])password=([^\&]*)\&?(.*)$ ]]; then
  url="${BASH_REMATCH[1]}${BASH_REMATCH[3]}"
  PGPASSWORD=$(printf '%b' "${BASH_REMATCH[2]//%/\\x}")
fi
export PGPASSWORD=${PGPASSWORD-}
# As the service does: TLS that is verified to another machine, unless something else is asked for. A socket ignores this.
if [[ -z ${PGSSLMODE-} && ! $url =~ [?\&]sslmode=[a-z] && ! $url =~ ^[a-z]+://([^@/?]*@)?(localhost|127\.[0-9.]+|\[::1\])(:[0-9]*)?([/?]|$) ]]; then
  export PGSSLMODE=verify-full
  # The authorities that the service trusts, too. libpq knows `system` only from version 16 on.
  for roots in "${PGSSLROOTCERT-}" "${SSL_CERT_FILE-}" /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem system; do
    [[ $roots != system && ! -r $roots ]] || break
  done
  [[ $url == *sslrootcert=* || -e ${HOME-}/.postgresql/root.crt ]] || export PGSSLROOTCERT=$roots
fi
half=$(mktemp -d "$1.XXXXXX")
trap 'rm -rf "$half"' EXIT
# The buckets of the rate limiter are worth nothing later.
pg_dump --format=custom --no-owner --no-unlogged-table-data --file="$half/database.dump" --dbname="$url"
cp -- "${CONNECT_KEYSET_FILE:?is not set}" "$half/keyset.json"
mv -T -- "$half" "$1"
trap - EXIT
