set -eu
mkdir -p /var/log/exim /var/spool/exim4 /etc/exim4
mv /etc/exim4.conf /etc/exim4/
chown root:root /etc/exim4/exim4.conf
chown Debian-exim:Debian-exim /var/log/exim /var/spool/exim4 /etc/key.pem /mail
exec /usr/sbin/exim4 -bdf
