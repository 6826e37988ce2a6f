#!/usr/bin/env bash
# Restores a backup into an empty database. Usage:
#
#   CONNECT_DATABASE_URL=postgres://… CONNECT_KEYSET_FILE=keyset.json docs/restore.sh DIRECTORY
#
# The file is your copy of the keyset: a backup has none. It must have the keys that seal the credentials of the backup. If the file is missing, and
# the backup is one of release 1.0.0, which had the keyset in it, the script restores that, too.
#
# The database is restored in one transaction: after a failure it is as empty as before. A grant that cannot be repeated here is no failure.
set -euo pipefail
umask 077
[ $# -eq 1 ] || { echo "usage: restore.sh DIRECTORY" >&2; exit 2; }
keyset=${CONNECT_KEYSET_FILE:?is not set}
has=$keyset
if [ ! -e "$keyset" ]; then
  has=$1/keyset.json
  [ -e "$has" ] || { echo "restore: $keyset is missing: put your copy of the keyset there first" >&2; exit 1; }
fi
# The ids of the keys are no secret. The server compares more when it starts.
for key in $(pg_restore --data-only --table=keyset_marks --file=- "$1/database.dump" | sed -n 's/^\([0-9]\{1,10\}\)\t.*/\1/p'); do
  grep -qE "\"keyId\" *: *$key([^0-9]|\$)" "$has" || { echo "restore: $has lacks key $key, which seals credentials of this backup" >&2; exit 1; }
done
# The password goes by the environment: what a program is called with, everybody on the machine can see.
url=${CONNECT_DATABASE_URL:?is not set}
[[ $url == postgres*://* ]] || { echo "restore: CONNECT_DATABASE_URL must be a URL (postgres://…), as the password is taken out of it" >&2; exit 1; }
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
pg_restore --exit-on-error --single-transaction --no-owner --no-privileges --dbname="$url" "$1/database.dump"
[ "$has" = "$keyset" ] || cp -- "$has" "$keyset"
# Afterwards the grants, as far as their roles are here and this role may give them: only a superuser may give those on PostgreSQL's own functions.
pg_restore --no-owner --use-list=<(pg_restore --list "$1/database.dump" | grep -E '^[0-9]+; [0-9]+ [0-9]+ ACL ') --dbname="$url" "$1/database.dump" ||
  echo "restore: all data are here, but not these grants: repeat those that you need" >&2
