#!/bin/sh
# Stops the service when the package is removed. An upgrade ("upgrade" of dpkg, 1 of rpm) keeps it running.
set -e
case "$1" in
remove | 0)
	if [ -d /run/systemd/system ] && [ -z "$DPKG_ROOT" ]; then
		systemctl disable --now connect-svc.service
	fi
	;;
esac
