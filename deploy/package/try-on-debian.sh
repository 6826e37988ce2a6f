#!/usr/bin/env bash
# Goes from an empty Debian machine with the .deb to a partner's first read, and prints how long each part took:
#
#   make packages && deploy/package/try-on-debian.sh [FILE.deb]
#
# debootstrap creates the machine in a folder, a Debian of this machine's release. The machine runs in namespaces of its own with
# systemd as its first process, and its network is only loopback: the script fetches packages before it starts. It installs,
# configures and starts everything by the blocks of docs/install.md under "On Debian, from nothing", pasted one by one. It adds only
# the certificate, which that section presupposes, and a mail server. The partner and the user's browser are curl outside of the
# namespaces. At the end the service ends TLS itself, as docs/operations.md says.
#
# Run it as root, with debootstrap, curl, jq and openssl. MIRROR and SUITE name another mirror or release. bin/debian keeps the fetched
# packages. Nothing else remains, and nothing of this machine changes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
repository=$PWD
deb=$(readlink -e "${1:-$(echo bin/connect-svc_*.deb)}") || { echo "no package: make packages" >&2; exit 2; }
mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)} # this machine's own
suite=${SUITE:-$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")}
[ "$(id -u)" -eq 0 ] || { echo "only root can make a machine" >&2; exit 2; }
for program in debootstrap curl jq openssl unshare nsenter; do
  type -P $program >/dev/null || { echo "please install $program" >&2; exit 2; }
done

folder=$(mktemp -d /var/tmp/try-on-debian.XXXXXX)
root=$folder/root host=connect.example.com
cgroup=$(findmnt -rn -t cgroup2 -o TARGET | head -n 1)/${folder##*/}
machine= stage=
finish() {
  [ -z "$stage" ] || { tail -n 40 "$folder/output" && echo "$stage: failed"; } >&2
  [ -z "$machine" ] || kill -KILL "$machine" 2>/dev/null || true # all that runs in it ends with its first process
  for _ in {1..50}; do # until the last of them is gone
    [ -d "$cgroup" ] || break
    find "$cgroup" -depth -type d -exec rmdir {} \; 2>/dev/null || sleep 0.1
  done
  rm -rf --one-file-system "$folder"
}
trap finish EXIT

now() { date +%s%N; }
seconds() { awk -v ns="$1" 'BEGIN { printf "%7.1f s", ns / 1e9 }'; }
sum=0
# timed NAME COMMAND… runs a command, whose output is in $folder/output. What is named in brackets is not counted.
timed() {
  local from took
  stage=$1
  shift
  from=$(now)
  "$@" >"$folder/output" 2>&1 </dev/null # what fails in it ends the script
  took=$(($(now) - from))
  [[ $stage == \[* ]] || sum=$((sum + took))
  printf '%-45s %s\n' "$stage" "$(seconds $took)"
  stage=
}

# blocks writes the section's blocks of commands to files of their own: 1, 2, 3.
mkdir "$folder/blocks"
awk -v folder="$folder/blocks" '
  /^## / { section = ($0 == "## On Debian, from nothing") }
  section && /^```bash$/ { inside = folder "/" ++count; next }
  /^```$/ { inside = "" }
  inside { print >inside }' docs/install.md
[ -s "$folder/blocks/3" ] || { echo "docs/install.md has other blocks" >&2; exit 1; }

fetch() {
  mkdir -p bin/debian
  debootstrap --cache-dir="$repository/bin/debian" "$suite" "$root" "$mirror"
  cp "$deb" "$root/root/"
  # A mail server nearby: every email becomes a file. And all that the page installs, but not yet.
  chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3-aiosmtpd
  chroot "$root" bash -euo pipefail -c "cd
    $(grep -h '^apt-get install' "$folder"/blocks/* | sed 's/^apt-get install/& --download-only/')"
  # Nobody will answer there: apt-get update is to know at once.
  : >"$root/etc/resolv.conf" && echo 'Acquire::Retries "0";' >"$root/etc/apt/apt.conf.d/00-alone"
}

# boot is the machine's beginning: it makes what a kernel and a firmware would, and becomes systemd.
boot() {
  mount --bind "$root" "$root" && cd "$root"
  mount -t proc proc proc
  mount -t sysfs -o ro sysfs sys
  mount -t cgroup2 cgroup2 sys/fs/cgroup
  mount -t tmpfs -o mode=755 tmpfs run
  mount -t tmpfs -o mode=755,nosuid tmpfs dev
  for device in null zero full random urandom tty; do touch dev/$device && mount --bind /dev/$device dev/$device; done
  mkdir dev/pts dev/shm
  mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
  mount -t tmpfs -o mode=1777 tmpfs dev/shm
  ln -s pts/ptmx dev/ptmx && ln -s /proc/self/fd dev/fd
  mkdir -p .outside && pivot_root . .outside && umount -l .outside && rmdir .outside
  mount --make-rshared / # or no service would get its credentials
  exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd
}

# inside runs a shell's command in the machine, as somebody who has logged in as root.
inside() {
  nsenter --target "$init" --mount --uts --ipc --net --pid --cgroup --root \
    env -i HOME=/root TERM=dumb LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash -euo pipefail -c "cd; $1"
}
start() {
  mkdir "$cgroup"
  export root
  (
    echo $BASHPID >"$cgroup/cgroup.procs"
    exec unshare --mount --pid --net --uts --ipc --cgroup --fork --kill-child=KILL --propagation private \
      bash -euo pipefail -c "$(declare -f boot); boot"
  ) &
  machine=$!
  disown
  until init=$(pgrep -P $machine) && [ "$(cat "/proc/$init/comm")" = systemd ]; do kill -0 $machine; sleep 0.1; done
  until inside 'systemctl is-system-running --wait'; do kill -0 $machine; sleep 0.1; done
  inside 'install -d -m 700 /var/mail/caught
    systemd-run --unit mail python3 -m aiosmtpd --nosetuid --listen 127.0.0.1:25 --class aiosmtpd.handlers.Mailbox /var/mail/caught/box'
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=$host" -addext "subjectAltName=DNS:$host" \
    -out "$folder/connect.pem" -keyout "$folder/connect-key.pem"
  install -D -m 600 -t "$root/etc/nginx" "$folder/connect.pem" "$folder/connect-key.pem"
}
paste() { inside "$(cat "$folder/blocks/$1")"; }
ready() {
  until nsenter --target "$init" --net curl --silent --fail http://127.0.0.1:9090/readyz; do
    if inside 'systemctl is-failed --quiet connect-svc'; then inside 'journalctl --unit connect-svc --no-pager'; return 1; fi
    sleep 0.1
  done
}

# outside asks the service as the world does: by its name, with TLS, through its proxy.
outside() {
  nsenter --target "$init" --net curl --silent --show-error --fail-with-body --cacert "$folder/connect.pem" \
    --resolve "$host:443:127.0.0.1" "$@"
}
# browser [FORM…] prints where the browser is sent.
browser() {
  local path=$1
  shift
  outside --cookie "$folder/cookies" --cookie-jar "$folder/cookies" --header "Origin: https://$host" --header 'Sec-Fetch-Site: same-origin' \
    --output /dev/null --write-out '%header{location}' "https://$host$path" "$@"
}
connect() {
  verifier=$(openssl rand -hex 32)
  local challenge request location
  challenge=$(printf %s "$verifier" | openssl dgst -sha256 -binary | openssl base64 -A | tr '+/' '-_' | tr -d '=')
  location=$(browser "/oauth/authorize?client_id=$client&redirect_uri=$callback&response_type=code&scope=daily_steps%3Aread&state=$(openssl rand -hex 16)&code_challenge=$challenge&code_challenge_method=S256")
  request=${location%/sign-in}
  browser "$request/sign-in" --data-urlencode email=ada@example.com
  local code
  until code=$(grep -rhoE '^[0-9]{6}'$'\r''?$' "$root/var/mail/caught/box/new"); do sleep 0.1; done
  browser "$request/code" --data "code=${code:0:6}"
  browser "$request/consent"
  location=$(browser "$request/consent" --data decision=allow)
  [[ $location == "$callback?"*code=* ]] || { echo "the browser is sent to ${location%%\?*}"; return 1; }
  authorization=${location##*code=}
  authorization=${authorization%%&*}
}
read_steps() {
  local tokens from got
  tokens=$(outside "https://$host/oauth/token" --user "$client:$secret" --data grant_type=authorization_code --data "code=$authorization" \
    --data-urlencode "redirect_uri=$callback" --data "code_verifier=$verifier")
  from=$(jq -r .history_from <<<"$tokens")
  got=$(outside "https://$host/connect-svc/v1/grants/$(jq -r .grant_id <<<"$tokens")/daily-activity?from=$from&to=$from" \
    --header "Authorization: Bearer $(jq -r .access_token <<<"$tokens")")
  jq -e --arg date "$from" '[.data[] | {date, steps}] == [{date: $date, steps: 8421}]' <<<"$got" || { echo "$got"; return 1; }
}
# logged has strangers ask for more than journald takes from a unit by default.
logged() {
  nsenter --target "$init" --net curl --silent --no-progress-meter --parallel --parallel-max 16 --output /dev/null "http://127.0.0.1:8443/robots.txt?[1-70000]"
  for _ in {1..50}; do
    [ "$(inside 'journalctl --unit connect-svc --output cat | grep -c /robots.txt')" -lt 70000 ] || return 0
    sleep 0.2
  done
  echo "requests are missing in the log"
  return 1
}
# fenced LANGUAGE TEXT prints the block of docs/operations.md that has the text.
fenced() {
  awk -v begin="\`\`\`$1" -v has="$2" '$0 == begin { inside = 1; text = ""; next }
    /^```$/ { if (inside && index(text, has)) printf "%s", text; inside = 0 }
    inside { text = text $0 "\n" }' docs/operations.md
}
# alone has the service end TLS itself on port 443, with a certificate of certbot's.
alone() {
  fenced ini CAP_NET_BIND_SERVICE | install -D -m 644 /dev/stdin "$root/etc/systemd/system/connect-svc.service.d/override.conf"
  fenced sh RENEWED_LINEAGE | install -D -m 755 /dev/stdin "$root/etc/letsencrypt/renewal-hooks/deploy/connect-svc"
  local lineage=/etc/letsencrypt/live/$host
  install -D -m 644 "$folder/connect.pem" "$root$lineage/fullchain.pem"
  install -D -m 600 "$folder/connect-key.pem" "$root$lineage/privkey.pem"
  inside "RENEWED_LINEAGE=$lineage /etc/letsencrypt/renewal-hooks/deploy/connect-svc
    sed -i -e 's/^CONNECT_LISTEN=.*/CONNECT_LISTEN=:443/' -e '/^CONNECT_TRUSTED_PROXIES=/d' /etc/connect-svc/connect-svc.env
    echo CONNECT_TLS_CERT=/etc/connect-svc/tls/fullchain.pem >>/etc/connect-svc/connect-svc.env
    echo CONNECT_TLS_KEY=/etc/connect-svc/tls/privkey.pem >>/etc/connect-svc/connect-svc.env
    systemctl disable --now nginx
    systemctl daemon-reload
    systemctl restart connect-svc"
  ready
  outside "https://$host/.well-known/oauth-authorization-server"
}
purged() { inside 'apt-get purge -y connect-svc; [ ! -e /usr/bin/connect-svc ]; [ -s /etc/connect-svc/keyset.json ]'; }

timed '[an empty Debian, and packages for it]' fetch
timed '[its start, with a mail server]' start
timed 'install, database, keyset, settings, start' paste 1
timed 'the service is ready' ready
timed 'TLS: nginx' paste 2
timed 'a partner, a user, a day of steps' paste 3
field() { sed -nE "s/^client $1 +//p" "$folder/output"; }
client=$(field id) secret=$(field secret) callback=https://partner.example/callback
timed 'the user signs in with a code and allows' connect
timed 'the code is exchanged, and the steps are read' read_steps
printf '%-45s %s\n' 'from the .deb to the first read' "$(seconds $sum)"
timed '[70,000 requests are in the log]' logged
timed '[the service ends TLS itself, on port 443]' alone
timed '[the package is purged: the keyset stays]' purged
