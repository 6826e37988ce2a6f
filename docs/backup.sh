#!/usr/bin/env bash
# Backs up the database. Usage:
#
#   CONNECT_DATABASE_URL=postgres://… docs/backup.sh DIRECTORY
#
# The directory must not exist yet; it is there only when the dump is in it. pg_dump reads one snapshot, so the service may run meanwhile.
#
# The keyset is not in it. Keep a copy of that file elsewhere: whoever has both can make credentials for every user, and without the keyset all
# credentials are lost.
#
# On a Citus cluster it is not one snapshot: each node has its own. The script says so, and names a restore point of all nodes, up to
# which you can restore them together from backups of each node with its archived log.
set -euo pipefail
umask 077
[ $# -eq 1 ] || { echo "usage: backup.sh DIRECTORY" >&2; exit 2; }
[ ! -e "$1" ] || { echo "backup: $1 exists already" >&2; exit 1; }
# The password goes by the environment: what a program is called with, everybody on the machine can see.
url=${CONNECT_DATABASE_URL:?is not set}
[[ $url == postgres*://* ]] || { echo "backup: CONNECT_DATABASE_URL must be a URL (postgres://…), as the password is taken out of it" >&2; exit 1; }
if [[ $url =~ ^([a-z]+://[^:/@?]*):([^@/?]*)@(.*)$ ]]; then
  url="${BASH_REMATCH[1]}@${BASH_REMATCH[3]}"
  PGPASSWORD=$(printf '%b' "${BASH_REMATCH[2]//%/\\x}")
elif [[ $url =~ ^(.*[?\&])password=([^\&]*)\&?(.*)$ ]]; then
  url="${BASH_REMATCH[1]}${BASH_REMATCH[3]}"
  PGPASSWORD=$(printf '%b' "${BASH_REMATCH[2]//%/\\x}")
fi
export PGPASSWORD=${PGPASSWORD-}
# These are for the service's pool, and libpq refuses a URL with them.
while [[ $url =~ ^(.*[?\&])(pool_[a-z_]+|(statement|description)_cache_capacity)=[^\&]*\&?(.*)$ ]]; do
  url="${BASH_REMATCH[1]}${BASH_REMATCH[4]}"
done
# As the service does: TLS that is verified to another machine, unless something else is asked for. A socket ignores this.
hosts=${url#*://} hosts=${hosts%%[/?]*} hosts=${hosts##*@} here='(localhost|127\.[0-9.]+|\[?::1\]?)(:[0-9]*)?'
[[ ! $url =~ [?\&]host=([^\&]*) ]] || hosts=${BASH_REMATCH[1]}
if [[ -z ${PGSSLMODE-} && ! $url =~ [?\&]sslmode=[a-z] && ! $hosts =~ ^$here(,$here)*$ ]]; then
  export PGSSLMODE=verify-full
  # The authorities that the service trusts, too. libpq knows `system` only from version 16 on.
  for roots in "${PGSSLROOTCERT-}" "${SSL_CERT_FILE-}" /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem system; do
    [[ $roots != system && ! -r $roots ]] || break
  done
  [[ $url == *sslrootcert=* || -e ${HOME-}/.postgresql/root.crt ]] || export PGSSLROOTCERT=$roots
fi
half=$(mktemp -d "$1.XXXXXX")
trap 'rm -rf "$half"' EXIT
if [[ $(psql -XAtd "$url" -c "select to_regclass('pg_catalog.pg_dist_node') is not null") == t ]]; then
  point=connect-svc-$(date -u +%Y%m%dT%H%M%SZ)
  psql -XAtqd "$url" -v ON_ERROR_STOP=1 -c "select citus_create_restore_point('$point')" >/dev/null
  echo "backup: the nodes of this cluster are not read in one snapshot, so rows of one node may lack those of another." \
    "All nodes can be restored together to the restore point $point" >&2
fi
# The buckets of the rate limiter are worth nothing later.
pg_dump --format=custom --no-owner --no-unlogged-table-data --file="$half/database.dump" --dbname="$url"
mv -T -- "$half" "$1"
trap - EXIT
echo "backup: the keyset is not in it, and is needed to restore: keep a copy of it elsewhere" >&2
