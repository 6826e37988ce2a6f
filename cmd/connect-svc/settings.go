package main

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"connect-svc/internal/account"
	"connect-svc/internal/credential"
	"connect-svc/internal/ratelimit"
)

// kind is a kind of setting: what is accepted, said in a few words, and how it is read.
type kind[T any] struct {
	accepted string
	// secret values are never printed, not even in the message that refuses them.
	secret bool
	// read returns an error that goes on with "is", such as "is not a number".
	read func(string) (T, error)
}

// checks collects the first setting that cannot be.
type checks struct{ first error }

func (c *checks) fail(flag, wrong, accepted string) {
	if c.first == nil {
		c.first = usagef("%s (--%s): %s; accepted: %s", variable(flag), flag, wrong, accepted)
	}
}

// check reads the value of a setting that is required.
func check[T any](c *checks, flag, value string, k kind[T]) (read T) {
	if value == "" {
		c.fail(flag, "is not set", k.accepted)
		return read
	}
	read, err := k.read(value)
	switch {
	case err == nil:
	case k.secret:
		c.fail(flag, err.Error(), k.accepted)
	default:
		c.fail(flag, fmt.Sprintf("%q %s", value, err), k.accepted)
	}
	return read
}

// optional is check for a setting that may be left out.
func optional[T any](c *checks, flag, value string, k kind[T]) (read T) {
	if value == "" {
		return read
	}
	return check(c, flag, value, k)
}

var databaseURL = kind[string]{
	accepted: "postgres://user:password@host:port/name",
	secret:   true,
	read: func(s string) (string, error) {
		if _, err := pgxpool.ParseConfig(s); err != nil {
			return "", errors.New("is not the URL of a PostgreSQL database")
		}
		return s, nil
	},
}

var replicaURL = kind[string]{
	accepted: "postgres://user:password@host:port,host:port/name with a host for each replica, or nothing",
	secret:   true,
	read:     databaseURL.read,
}

var limiterURL = kind[string]{
	accepted: "redis://user:password@host:port, rediss:// with TLS, or nothing for PostgreSQL",
	secret:   true,
	read: func(s string) (string, error) {
		if ratelimit.CheckRedisURL(s) != nil {
			return "", errors.New("is not the URL of a Redis or Valkey server")
		}
		return s, nil
	},
}

// origin is the issuer. It is compared as an exact string by partners, so there is one way to write it.
var origin = kind[string]{
	accepted: "https://host or https://host:port in lower case, without a path and without a slash at the end",
	read: func(s string) (string, error) {
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "https" || u.Hostname() == "" || "https://"+strings.ToLower(u.Host) != s {
			return "", errors.New("is not an https origin")
		}
		if port := u.Port(); strings.HasSuffix(u.Host, ":") || port != "" && !isPort(port, 1) {
			return "", errors.New("has no valid port")
		}
		return s, nil
	},
}

var listenAddress = kind[string]{
	accepted: "host:port or :port, the port a number from 0 (any free one) to 65535",
	read: func(s string) (string, error) {
		_, port, err := net.SplitHostPort(s)
		if err != nil || !isPort(port, 0) {
			return "", errors.New("is not an address to listen on")
		}
		return s, nil
	},
}

func isPort(s string, least int) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n >= least && n <= 65535
}

var keysetFile = kind[*credential.Keyring]{
	accepted: "a file made by `connect-svc keys create --out FILE`",
	read: func(s string) (*credential.Keyring, error) {
		ring, err := credential.LoadKeyring(s)
		if err != nil {
			return nil, fmt.Errorf("cannot be used: %w", err)
		}
		return ring, nil
	},
}

// certificate reads the two files that make one certificate; both are set or neither.
func certificate(c *checks, certFile, keyFile string) *tls.Certificate {
	const accepted = "PEM files, the certificate with its chain and its key, or neither for plain HTTP behind a proxy"
	switch {
	case certFile == "" && keyFile == "":
		return nil
	case certFile == "":
		c.fail("tls-cert", "is not set, but CONNECT_TLS_KEY is", accepted)
		return nil
	case keyFile == "":
		c.fail("tls-key", "is not set, but CONNECT_TLS_CERT is", accepted)
		return nil
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		c.fail("tls-cert", fmt.Sprintf("cannot be used with CONNECT_TLS_KEY (--tls-key): %v", err), accepted)
		return nil
	}
	return &pair
}

var networks = kind[[]netip.Prefix]{
	accepted: "networks in CIDR form separated by commas, such as 10.0.0.0/8,2001:db8::/32",
	read: func(s string) ([]netip.Prefix, error) {
		var list []netip.Prefix
		for _, part := range strings.Split(s, ",") {
			prefix, err := netip.ParsePrefix(strings.TrimSpace(part))
			if err != nil {
				return nil, errors.New("is not a list of networks")
			}
			list = append(list, prefix.Masked())
		}
		return list, nil
	},
}

// operatorToken is kept as its hash. What is accepted can stand in a header (RFC 6750, section 2.1).
var operatorToken = kind[[]byte]{
	accepted: "32 to 1024 printable ASCII characters without spaces, such as the output of `openssl rand -hex 32`",
	secret:   true,
	read: func(s string) ([]byte, error) {
		if len(s) < 32 || len(s) > 1024 {
			return nil, errors.New("is too short or too long")
		}
		if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, errors.New("has a character that cannot be sent")
		}
		return credential.Hash(s), nil
	},
}

// mailer reads the two settings that make it; both are required.
func mailer(c *checks, smtpURL, from string) *account.Mailer {
	const acceptedURL = "smtp://host:port or smtps://user:password@host:port"
	const acceptedFrom = "an address such as no-reply@example.com or Example <no-reply@example.com>"
	if smtpURL == "" {
		c.fail("smtp-url", "is not set", acceptedURL)
		return nil
	}
	mailer, err := account.NewMailer(smtpURL, cmp.Or(from, "no-reply@example.com"))
	switch {
	case errors.Is(err, account.ErrMailFrom):
		c.fail("mail-from", fmt.Sprintf("%q is not a mail address", from), acceptedFrom)
	case err != nil: // it may hold a password: nothing of it is repeated
		c.fail("smtp-url", "is not the URL of a mail server", acceptedURL)
	case from == "":
		c.fail("mail-from", "is not set", acceptedFrom)
	}
	return mailer
}

// duration accepts whole seconds from least to most; most 0 stands for no upper bound.
func duration(least, most time.Duration) kind[time.Duration] {
	accepted := fmt.Sprintf("whole seconds from %s to %s, such as 90s or 2m", least, most)
	if most == 0 {
		accepted = fmt.Sprintf("whole seconds, %s or more, such as 90s, 5m or 720h", least)
	}
	return kind[time.Duration]{
		accepted: accepted,
		read: func(s string) (time.Duration, error) {
			d, err := time.ParseDuration(s)
			if err != nil {
				return 0, errors.New("is not a duration")
			}
			if d%time.Second != 0 {
				return 0, errors.New("has a fraction of a second")
			}
			if d < least || most > 0 && d > most {
				return 0, errors.New("is out of bounds")
			}
			return d, nil
		},
	}
}

var onOff = kind[bool]{
	accepted: "on or off",
	read: func(s string) (bool, error) {
		if s != "on" && s != "off" {
			return false, errors.New("is neither")
		}
		return s == "on", nil
	},
}

var perHour = kind[int]{
	accepted: "a whole number from 0 (no limit) to 1000000",
	read: func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil {
			return 0, errors.New("is not a whole number")
		}
		if n < 0 || n > 1_000_000 {
			return 0, errors.New("is out of bounds")
		}
		return n, nil
	},
}
