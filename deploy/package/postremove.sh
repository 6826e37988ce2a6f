#!/bin/sh
# The keyset stays, whatever is removed: nobody's connection survives without it.
set -e
if [ -d /run/systemd/system ] && [ -z "$DPKG_ROOT" ]; then
	systemctl daemon-reload
fi
