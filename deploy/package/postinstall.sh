#!/bin/sh
# Creates the service's account. An installation does not start the service, because the settings are still missing. An upgrade does
# not restart it: the operator migrates the database first, and restarts one server after the other.
set -e
if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers ${DPKG_ROOT:+--root="$DPKG_ROOT"} connect-svc.conf
elif ! getent passwd connect-svc >/dev/null; then
	useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin connect-svc
fi
# The service reads its settings itself, so that it can read them again. An upgrade changes the file's mode, too.
settings=$DPKG_ROOT/etc/connect-svc/connect-svc.env
group=$(sed -n 's/^connect-svc:[^:]*:\([0-9]*\):.*/\1/p' "$DPKG_ROOT/etc/group")
if [ -n "$group" ] && chgrp "$group" "$settings"; then
	chmod 0640 "$settings"
else
	echo "connect-svc: give $settings to the group connect-svc, with mode 0640: the service must be able to read it" >&2
fi
if [ -d /run/systemd/system ] && [ -z "$DPKG_ROOT" ]; then
	systemctl daemon-reload
fi
