#!/usr/bin/env bash
# Moves the service from one PostgreSQL to a streaming replica of it, while requests wait. Usage:
#
#   docs/move.sh OLD NEW RELOAD [PAUSE RESUME]
#
# OLD and NEW are URLs of the same database on both, for a role that may change settings, promote and read all statistics (passwords: PGPASSFILE).
# RELOAD is a command after which the service uses the new one: it sends SIGHUP to all servers, whose files have its URL, or has each PgBouncer read its new file. PAUSE
# and RESUME are commands for each PgBouncer. If within some three seconds a transaction does not end, the replica has not caught up, or the old server
# has not taken the setting, everything goes on with the old server, and the status is 1.
set -euo pipefail
[ $# -eq 3 ] || [ $# -eq 5 ] || { echo "usage: move.sh OLD NEW RELOAD [PAUSE RESUME]" >&2; exit 2; }
ask() { psql -XAtqd "$1" -v ON_ERROR_STOP=1 -c "$2"; }
# To others pg_stat_activity and pg_stat_wal_receiver show nothing, and transactions that go on would be taken for ended ones.
for url in "$1" "$2"; do
  sees=$(ask "$url" "select pg_has_role('pg_read_all_stats', 'usage')")
  [[ $sees == t ]] ||
    { echo "move: this role cannot see the transactions of others: grant pg_read_all_stats to it" >&2; exit 1; }
done
[[ $(ask "$2" "select pg_is_in_recovery() and exists (select from pg_stat_wal_receiver where status = 'streaming')") == t ]] ||
  { echo "move: the new server is not a replica that streams" >&2; exit 1; }
[[ $(ask "$2" "select has_function_privilege('pg_promote(boolean, integer)', 'execute')") == t ]] || { echo "move: this role may not promote the new server" >&2; exit 1; }
# These would go on to write, and their commits be lost.
[[ $(ask "$1" "select not exists (select from pg_db_role_setting, unnest(setconfig) as own where own ~* '^default_transaction_read_only=(of|f|n|0)')") == t ]] ||
  { echo "move: a role or a database of the old server is never read-only, see pg_db_role_setting: reset its default_transaction_read_only first" >&2; exit 1; }
began=$(date +%s%3N)
waited() { echo $(($(date +%s%3N) - began)); }
resume() { bash -c "${1:-:}" || { echo "move: requests wait until this succeeds: $1" >&2; return 1; }; }
release() {
  # It may be away, and requests go on nevertheless.
  psql -XAtqd "$1" -v ON_ERROR_STOP=1 -c "alter system reset default_transaction_read_only" -c "select pg_reload_conf()" >/dev/null ||
    echo "move: the old server may refuse writes until you do this there: alter system reset default_transaction_read_only; select pg_reload_conf()" >&2
  resume "$2" || true
  echo "move: nothing has changed, the old server goes on. Requests waited for $(waited) ms" >&2
}
trap 'release "$1" "${5-}"' EXIT
# PgBouncer does not tell the servers that the database takes no writes, so a transaction would begin, and fail. It pauses when all have ended.
timeout 2 bash -c "${4:-:}" || { echo "move: PgBouncer does not pause: a transaction through it does not end, or it cannot be reached" >&2; exit 1; }
psql -XAtqd "$1" -v ON_ERROR_STOP=1 -c "alter system set default_transaction_read_only = on" -c "select pg_reload_conf()" >/dev/null
# A new session has the setting after all others were told of it. Who begins a transaction from then on cannot write, so those that began before
# it have to end.
at=
until [[ -n $at || $(waited) -gt 3000 ]]; do at=$(ask "$1" "select clock_timestamp() where current_setting('default_transaction_read_only') = 'on'"); done
[[ -n $at ]] || { echo "move: the old server has not taken the setting in time, see its log" >&2; exit 1; }
before="from pg_stat_activity where datname = current_database() and backend_type = 'client backend' and xact_start <= '$at'"
ended= moved=
until [[ $ended == t || $(waited) -gt 3000 ]]; do ended=$(ask "$1" "select not exists (select $before)"); done
# With synchronous_commit off a commit is answered before it is flushed, and only what is flushed reaches the new server. This commit flushes all
# that came before it.
flush="begin read write; set local synchronous_commit = local; select pg_logical_emit_message(true, 'move', ''); commit"
if [[ $ended == t ]]; then
  end=$(ask "$1" "$flush; select pg_current_wal_flush_lsn()" | tail -n 1)
  until [[ $moved == t || $(waited) -gt 3000 ]]; do moved=$(ask "$2" "select pg_last_wal_replay_lsn() >= '$end'"); done
fi
if [[ $moved != t ]]; then
  release "$1" "${5-}"
  trap - EXIT
  echo "move: the new server is behind, or these do not end:" "$(ask "$1" "select string_agg(application_name || ', process ' || pid, '; ') $before")" >&2
  exit 1
fi
trap 'resume "${5-}"' EXIT
promote="select case when pg_is_in_recovery() then pg_promote(true, 5) else true end"
promoted=$(ask "$2" "$promote") || true
# From here on nothing goes back to the old server: the new one may take writes at any moment.
until [[ $promoted == t ]]; do
  echo "move: requests wait for the new server, whose promotion has not ended: see its log" >&2
  sleep 1
  promoted=$(ask "$2" "$promote") || true
done
bash -c "$3" || { echo "move: the new server takes writes, but the service does not use it until this succeeds: $3" >&2; exit 1; }
trap - EXIT
resume "${5-}"
echo "move: requests waited for $(waited) ms"
