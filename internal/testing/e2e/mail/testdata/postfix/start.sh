set -eu
mkdir -p /var/spool/postfix /var/lib/postfix /etc/postfix/sasl
cd /var/spool/postfix
mkdir active bounce corrupt defer deferred flush hold incoming maildrop pid private public saved trace
chown postfix /var/lib/postfix active bounce corrupt defer deferred flush hold incoming maildrop private public saved trace
chgrp postdrop maildrop public
chmod 700 private
chmod 710 public
chmod 730 maildrop
chown vmail:vmail /mail
printf 'pwcheck_method: auxprop\nauxprop_plugin: sasldb\nmech_list: PLAIN LOGIN\n' >/etc/postfix/sasl/smtpd.conf
printf %s 'PASSWORD' | saslpasswd2 -p -c -u mail.example connect
chown postfix /etc/sasldb2
exec /usr/lib/postfix/sbin/master -d
