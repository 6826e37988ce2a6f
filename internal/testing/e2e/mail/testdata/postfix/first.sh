# Answers the first question about a recipient with an action, and accepts it afterwards. Usage: first.sh NAME ACTION
while :; do
  recipient=
  while read -r line && [ -n "$line" ]; do
    case $line in recipient=*) recipient=${line#recipient=} ;; esac
  done
  [ -n "$recipient" ] || exit 0
  action=DUNNO
  if [ ! -e "/tmp/$1-$recipient" ]; then
    : >"/tmp/$1-$recipient"
    action=$2
  fi
  printf 'action=%s\n\n' "$action"
done
