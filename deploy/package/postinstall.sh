#!/bin/sh
# Creates the service's account. An installation does not start the service, because the settings are still missing. An upgrade does
# not restart it: the operator migrates the database first, and restarts one server after the other.
set -e
if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers ${DPKG_ROOT:+--root="$DPKG_ROOT"} connect-svc.conf
elif ! getent passwd connect-svc >/dev/null; then
	useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin connect-svc
fi
if [ -d /run/systemd/system ] && [ -z "$DPKG_ROOT" ]; then
	systemctl daemon-reload
fi
