set -eu
ln -s /run /var/run
mkdir -p /var/spool/smtpd /var/lib/opensmtpd/empty
chmod 711 /var/spool/smtpd
chown vmail:vmail /mail
exec /usr/sbin/smtpd -d -f /etc/smtpd.conf
