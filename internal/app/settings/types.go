package settings

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"connect-svc/internal/admin/operators"
	"connect-svc/internal/admin/portal"
	"connect-svc/internal/app/listener"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/ratelimit"
	"connect-svc/internal/edge/developers"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/locale"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/work"
)

// Variable is the environment variable of a setting: base-url is CONNECT_BASE_URL.
func Variable(flag string) string {
	return "CONNECT_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// place is where a setting is written: CONNECT_BASE_URL (--base-url).
func place(flag string) string { return Variable(flag) + " (--" + flag + ")" }

// Refuse returns the error of a setting that cannot be used: what is wrong with it, and what is accepted.
func Refuse(flag, problem, accepted string) refusal.Field {
	return refusal.Field{Path: place(flag), Problem: problem + "; accepted: " + accepted}
}

// Refuses tells whether a problem is that of a setting.
func Refuses(problem error, flag string) bool {
	wrong, ok := errors.AsType[refusal.Field](problem)
	return ok && wrong.Path == place(flag)
}

// Type is what settings of one type accept.
type Type struct {
	accepted string
	secret   bool // the value is never printed, not even in the message that refuses it
	nothing  bool // nothing is a value, which parse reads, although there is a default
	// parse returns a value of the field's type, or an error that completes a sentence, such as "is not a number".
	parse func(string) (any, error)
}

// read returns the value of a setting, nil for none, or its [Refuse].
func (t Type) read(flag *kong.Value, text string) (any, error) {
	if text == "" && !t.nothing {
		if flag.HasDefault || flag.Tag.Get("setting") == "required" {
			return nil, Refuse(flag.Name, "is not set", t.accepted)
		}
		return nil, nil
	}
	value, err := t.parse(text)
	if err == nil {
		return value, nil
	}
	problem := err.Error()
	// A URL may have a password where none belongs.
	if _, rest, isURL := strings.Cut(text, "://"); !t.secret && (!isURL || !strings.Contains(rest, "@")) {
		problem = fmt.Sprintf("%q %s", text, err)
	}
	return nil, Refuse(flag.Name, problem, t.accepted)
}

// CanBeNothing reports whether nothing is a value of a setting, which counts in the place of its default.
func CanBeNothing(flag *kong.Flag) bool { return types[flag.Tag.Get("type")].nothing }

// Accepted says what a setting accepts. It is empty for any text.
func Accepted(flag *kong.Flag) string { return types[flag.Tag.Get("type")].accepted }

var types = map[string]Type{
	"origin": {
		accepted: "https://host or https://host:port in lower case, without a path or trailing slash",
		parse:    parseOrigin,
	},
	"database": {
		accepted: "postgres://user:password@host:port/name, with TLS that is verified unless it says another sslmode",
		secret:   true,
		parse:    ofServer(postgres.CheckURL),
	},
	"replicas": {
		accepted: "postgres://user:password@host:port,host:port/name with a host for each replica, or nothing",
		secret:   true,
		parse:    ofServer(postgres.CheckURL),
	},
	"limiter": {
		accepted: "rediss://user:password@host:port, redis://localhost:port, redis://host:port?tls=off, or nothing for PostgreSQL",
		secret:   true,
		parse:    ofServer(ratelimit.CheckRedisURL),
	},
	"mail server": {
		accepted: "smtp://host:port with STARTTLS, smtps://user:password@host:port, or smtp://host:port?tls=off",
		secret:   true,
		parse: ofServer(func(s string) error {
			if !canMail(s, anySender) {
				return errors.New("is not the URL of a mail server")
			}
			return nil
		}),
	},
	"sender": {
		accepted: "an address such as no-reply@example.com or Example <no-reply@example.com>",
		parse:    kept(func(s string) bool { return canMail("smtp://localhost:25", s) }, "is not a mail address"),
	},
	"log level": {
		accepted: "debug, info, warn or error",
		parse: func(s string) (any, error) {
			for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
				if strings.EqualFold(level.String(), s) {
					return level, nil
				}
			}
			return nil, errors.New("is not a level")
		},
	},
	"keyset": {
		accepted: "a file made by `connect-svc keys create --out FILE`",
		parse: func(s string) (any, error) {
			ring, err := credential.LoadKeyring(s)
			if err != nil {
				return nil, fmt.Errorf("cannot be used: %w", err)
			}
			return ring, nil
		},
	},
	"address": {
		accepted: "host:port or :port, with a port from 0 (any free one) to 65535",
		parse:    kept(IsAddress, "is not an address to listen on"),
	},
	"host names": {
		accepted: "host names separated by commas, without ports, such as connect.internal,connect-svc",
		parse: listed("is not a list of host names", func(part string) (string, bool) {
			name := strings.ToLower(part)
			return name, isHost(name)
		}),
	},
	"server name": {
		accepted: "1 to 80 letters, digits, points, colons, - and _, such as web-1",
		parse:    kept(regexp.MustCompile(`^[A-Za-z0-9._:-]{1,80}$`).MatchString, "is not a name"),
	},
	"brand name": {
		accepted: "1 to 40 printable characters, without leading or trailing spaces",
		parse:    kept(isBrandName, "is not a valid name"),
	},
	"logo": {
		accepted: "an SVG or PNG file of at most 64 KiB, or nothing",
		parse: func(s string) (any, error) {
			_, logo, err := ReadLogo(s)
			return logo, err
		},
	},
	"icon": {
		accepted: "a square PNG file of at most 64 KiB, or nothing",
		parse: func(s string) (any, error) {
			_, icon, err := ReadLogo(s)
			if err == nil && (icon.MediaType() != "image/png" || !icon.IsSquare()) {
				err = errors.New("is not a square PNG file")
			}
			return icon, err
		},
	},
	"color": {
		accepted: "any color, such as #0b5a41",
		parse:    func(s string) (any, error) { return brand.ParseColor(s) },
	},
	"page": {
		accepted: "an https:// address of at most 2048 characters, or nothing",
		parse:    kept(brand.IsPage, "is not a valid address"),
	},
	"support page": {
		accepted: "an https:// address of at most 2048 characters, mailto:help@example.com, or nothing",
		parse:    kept(brand.IsSupport, "is not a valid address"),
	},
	"texts": {
		accepted: "a folder of files such as de.toml, with the keys that `texts export en` prints",
		parse: func(s string) (any, error) {
			if info, err := os.Stat(s); err != nil || !info.IsDir() {
				return nil, errors.New("is not a folder")
			}
			texts, err := locale.New(os.DirFS(s))
			if err != nil {
				return nil, fmt.Errorf("cannot be used: %w", err)
			}
			return texts, nil
		},
	},
	"networks": {
		accepted: "networks in CIDR form separated by commas, such as 10.0.0.0/8,2001:db8::/32",
		parse: listed("is not a list of networks", func(part string) (netip.Prefix, bool) {
			prefix, err := netip.ParsePrefix(part)
			return prefix.Masked(), err == nil && !prefix.Addr().Is4In6() // addresses of IPv4 are compared as such
		}),
	},
	"operator token": {
		accepted: "32 to 1024 printable ASCII characters without spaces, such as the output of `openssl rand -hex 32`",
		secret:   true,
		parse:    hashOperatorToken,
	},
	"person": {
		accepted: "1 to 64 letters, digits, dots, hyphens and underscores, or nothing",
		parse:    kept(work.IsPersonName, "is not a name"),
	},
	"switch": {
		accepted: "on or off",
		parse: func(s string) (any, error) {
			if s != "on" && s != "off" {
				return nil, errors.New("is neither")
			}
			return s == "on", nil
		},
	},
	"portal changes": {
		accepted: "webhooks, secrets, or both, separated by a comma, or nothing",
		nothing:  true,
		parse: func(s string) (any, error) {
			var changes portal.Changes
			for kind := range strings.SplitSeq(s, ",") {
				switch {
				case kind == "webhooks" && !changes.Webhooks:
					changes.Webhooks = true
				case kind == "secrets" && !changes.Secrets:
					changes.Secrets = true
				case s != "":
					return nil, errors.New("is something else")
				}
			}
			return changes, nil
		},
	},
	"module": {
		accepted: "a Go module path without a version, such as go.example.com/connect-go, or nothing",
		parse:    func(s string) (any, error) { return s, developers.CheckModule(s) },
	},
	"programs": {
		accepted: "own, off, or a folder with the programs of a release and their SHA256SUMS",
		parse: func(s string) (any, error) {
			switch s {
			case "off":
				return (*developers.Programs)(nil), nil
			case "own":
				return developers.OwnPrograms(), nil
			}
			return developers.ReleasedPrograms(s)
		},
	},
	"hourly limit": {
		accepted: "a whole number from 0 (no limit) to 1000000",
		parse: func(s string) (any, error) {
			n, err := strconv.Atoi(s)
			switch {
			case err != nil:
				return nil, errors.New("is not a whole number")
			case n < 0 || n > 1_000_000:
				return nil, errors.New("is out of bounds")
			}
			return n, nil
		},
	},
	"1s to 2m":   lifetime(2 * time.Minute),
	"1s to 5m":   lifetime(5 * time.Minute),
	"1s to 10m":  lifetime(10 * time.Minute),
	"1s to 15m":  lifetime(15 * time.Minute),
	"1s to 1h":   lifetime(time.Hour),
	"1s or more": seconds(time.Second, math.MaxInt64, "whole seconds, 1s or more, such as 90s, 5m or 720h"),
	"0 to 60s":   seconds(0, time.Minute, "whole seconds from 0s to 60s, such as 5s"),

	"0 or 1s or more": seconds(0, math.MaxInt64, "0 for forever, or whole seconds, 1s or more, such as 720h"),
}

// kept is the parse of a setting that is used as it is written.
func kept(valid func(string) bool, problem string) func(string) (any, error) {
	return func(s string) (any, error) {
		if !valid(s) {
			return nil, errors.New(problem)
		}
		return s, nil
	}
}

// parseOrigin accepts one spelling only, because partners compare the issuer as an exact string: that of browsers, except that the default
// port may be there.
func parseOrigin(s string) (any, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || "https://"+strings.ToLower(u.Host) != s {
		return nil, errors.New("is not an https origin")
	}
	host, port := u.Hostname(), u.Port()
	address, notAddress := netip.ParseAddr(host)
	switch {
	case strings.HasSuffix(host, "."):
		return nil, errors.New("ends with a dot, which browsers take for another origin")
	case strings.ContainsFunc(host, func(r rune) bool { return r > unicode.MaxASCII }):
		return nil, errors.New("names a host that is not ASCII: write its A-labels, such as xn--bcher-kva.example")
	case notAddress == nil && (address.String() != host || address.Is4In6()):
		return nil, errors.New("does not have the address as browsers write it")
	case !isHost(host):
		return nil, errors.New("names a host that cannot be")
	case strings.HasSuffix(u.Host, ":") || port != "" && !isPort(port, 1):
		return nil, errors.New("has no valid port")
	case strings.HasPrefix(port, "0"):
		return nil, errors.New("has a port that begins with 0")
	}
	return s, nil
}

// IsHostName reports whether the text is a host name in lower case.
func IsHostName(s string) bool { return hostName.MatchString(s) }

var hostName = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$`)

// isHost reports whether the text is an IP address or a name that a host can have, in lower case. A name that ends with a number would be
// taken for an IPv4 address.
func isHost(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	labels := strings.Split(s, ".")
	last := labels[len(labels)-1]
	return len(s) <= 253 && hostName.MatchString(s) && strings.Trim(last, "0123456789") != "" &&
		!slices.ContainsFunc(labels, func(label string) bool { return len(label) > 63 })
}

// listed is the parse of a setting with commas.
func listed[T any](problem string, read func(part string) (item T, valid bool)) func(string) (any, error) {
	return func(s string) (any, error) {
		var list []T
		for part := range strings.SplitSeq(s, ",") {
			item, valid := read(strings.TrimSpace(part))
			if !valid {
				return nil, errors.New(problem)
			}
			list = append(list, item)
		}
		return list, nil
	}
}

func isPort(s string, least int) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n >= least && n <= 65535
}

// IsAddress reports whether the text is host:port or :port.
func IsAddress(s string) bool {
	host, port, err := net.SplitHostPort(s)
	return err == nil && isPort(port, 0) && (host == "" || isHost(strings.ToLower(host)))
}

// Collide reports whether one listener takes the address of another one: the same port, which is not any free one, of a common address.
func Collide(name, other string) bool {
	host, port, err := net.SplitHostPort(name)
	otherHost, otherPort, otherErr := net.SplitHostPort(other)
	if err != nil || otherErr != nil || port != otherPort || port == "0" {
		return false
	}
	family := func(host string) (ip netip.Addr, all bool) {
		if host == "localhost" {
			host = "127.0.0.1"
		}
		ip, _ = netip.ParseAddr(host)
		return ip, host == "" || ip.IsUnspecified()
	}
	ip, all := family(host)
	otherIP, otherAll := family(otherHost)
	apart := ip.Is4() && otherIP.Is6() && !otherIP.IsUnspecified() || ip.Is6() && !ip.IsUnspecified() && otherIP.Is4()
	return host == otherHost || !apart && (all || otherAll || ip.IsValid() && ip == otherIP)
}

func isBrandName(s string) bool {
	unseen := strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) || c == utf8.RuneError })
	return s == strings.TrimSpace(s) && utf8.RuneCountInString(s) <= 40 && utf8.ValidString(s) && !unseen
}

// anySender is a sender for whom to try a mail server.
const anySender = "no-reply@example.com"

func canMail(server, sender string) bool {
	_, err := account.NewMailer(server, sender)
	return err == nil
}

// hashOperatorToken accepts what can stand in a header (RFC 6750, section 2.1). The token is kept as its hash only.
func hashOperatorToken(s string) (any, error) {
	if len(s) < 32 || len(s) > 1024 {
		return nil, errors.New("is too short or too long")
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("contains a character that cannot be sent")
	}
	if operators.Bits(s) < operators.MinBits {
		return nil, fmt.Errorf("can be guessed: it repeats itself, or has too few different characters, and comes to less than %d bits", operators.MinBits)
	}
	return credential.Hash(s), nil
}

// lifetime is from one second to most.
func lifetime(most time.Duration) Type {
	return seconds(time.Second, most, fmt.Sprintf("whole seconds from 1s to %s, such as 90s or 2m", most))
}

func seconds(least, most time.Duration, accepted string) Type {
	return Type{accepted: accepted, parse: func(s string) (any, error) {
		d, err := time.ParseDuration(s)
		switch {
		case err != nil:
			return nil, errors.New("is not a duration")
		case d%time.Second != 0:
			return nil, errors.New("has a fraction of a second")
		case d < least || d > most:
			return nil, errors.New("is out of bounds")
		}
		return d, nil
	}}
}

// ReadCertificate checks the two files that make one certificate, and returns how to read them. Both are set or neither. The
// settings' names begin with prefix.
func ReadCertificate(prefix, certFile, keyFile string) (listener.Certificate, error) {
	const accepted = "PEM files, the certificate with its chain and its key, or neither for plain HTTP"
	cert, key := prefix+"-cert", prefix+"-key"
	switch {
	case certFile == "" && keyFile == "":
		return nil, nil
	case certFile == "":
		return nil, Refuse(cert, "is not set, but "+Variable(key)+" is", accepted)
	case keyFile == "":
		return nil, Refuse(key, "is not set, but "+Variable(cert)+" is", accepted)
	}
	read := func() (*tls.Certificate, error) {
		certificate, err := os.ReadFile(filepath.Clean(certFile))
		if err != nil {
			return nil, err
		}
		secret, err := credential.ReadSecretFile(keyFile, maxSecret)
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(certificate, secret)
		return &pair, err
	}
	if _, err := read(); err != nil {
		return nil, Refuse(cert, fmt.Sprintf("cannot be used with %s: %v", place(key), err), accepted)
	}
	return read, nil
}

// OperatorTokensFile is the flag whose file can be used in part.
const OperatorTokensFile = "operator-tokens-file"

// ReadOperators reads the two settings that say who may use the operator API; nil: nobody. Beside an error it returns what can be used.
func ReadOperators(unnamed []byte, file string) (*operators.Tokens, error) {
	tokens, err := operators.New(unnamed, file)
	if err != nil {
		return tokens, Refuse(OperatorTokensFile, fmt.Sprintf("%q %v", file, err),
			"a file with a line NAME read|write sha256:HEX for each token, or nothing")
	}
	return tokens, nil
}
