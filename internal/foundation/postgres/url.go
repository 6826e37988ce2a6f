package postgres

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"connect-svc/internal/foundation/network"
)

// Errors of URLs complete a sentence. They do not wrap the error of the parser, which holds the URL.
var (
	errURL      = errors.New("is not the URL of a PostgreSQL database")
	errVariable = errors.New("cannot be used: a variable of libpq is wrong, such as PGSERVICE")
	errHost     = errors.New("is not the URL of a PostgreSQL database: it names no host, and no socket of this machine, such as ?host=/run/postgresql")
)

// parseURL parses the URL of a database and adds what every connection of the service has, unless the URL says otherwise. Everything
// that connects uses it, so that no connection is less secure: the default of the driver (sslmode=prefer) accepts any certificate, and
// no TLS at all.
func parseURL(text string) (*pgxpool.Config, error) {
	config, err := check(text)
	if err != nil {
		return nil, fmt.Errorf("database: the address %w: expected postgres://user:password@host:port/name", err)
	}
	// An operator sets sslmode in the URL, in its form of keywords and values, or in PGSSLMODE.
	if os.Getenv("PGSSLMODE") == "" && !inURL.MatchString(text) && (isURL.MatchString(text) || !inKeywords.MatchString(text)) {
		verify(config.ConnConfig)
	}
	config.ConnConfig.ConnectTimeout = cmp.Or(config.ConnConfig.ConnectTimeout, connectTimeout)
	setDefault(config.ConnConfig, "application_name", "connect-svc")
	maps.DeleteFunc(config.ConnConfig.RuntimeParams, func(name, _ string) bool { return isOurs.MatchString(name) }) // of a variable, too: PGTZ
	maps.Copy(config.ConnConfig.RuntimeParams, map[string]string{"timezone": "UTC", "datestyle": "ISO"})            // PgBouncer passes both on
	return config, nil
}

// CheckURL returns an error if text is not the URL of a database, or the same as keywords and values. The error completes a sentence, and
// does not quote the text.
func CheckURL(text string) error {
	_, err := check(text)
	return err
}

// check parses a URL, and refuses what the driver accepts, and an operator cannot have meant: it takes almost any text for keywords and values,
// and then asks a socket of this machine.
func check(text string) (*pgxpool.Config, error) {
	standard, err := pgx.ParseConfig("")
	if err != nil {
		return nil, errVariable
	}
	config, err := pgxpool.ParseConfig(text)
	if file, ok := errors.AsType[*fs.PathError](err); ok { // of sslrootcert, sslcert or sslkey
		return nil, fmt.Errorf("names a file that cannot be read: %w", file)
	}
	if err != nil || strings.ContainsFunc(text, unicode.IsControl) { // the end of a line
		return nil, errURL
	}
	for parameter := range config.ConnConfig.RuntimeParams {
		if !isParameter.MatchString(parameter) {
			return nil, errURL
		}
	}
	plain, err := url.PathUnescape(text)
	if err != nil {
		plain = text // of keywords and values
	}
	fromEnvironment := os.Getenv("PGHOST")+os.Getenv("PGSERVICE") != ""
	for _, server := range byHost(config.ConnConfig) {
		host := server[0].Host
		if host == standard.Host && !fromEnvironment && !strings.Contains(plain, host) {
			return nil, errHost
		}
		if _, err := netip.ParseAddr(host); err != nil && !isHost.MatchString(host) {
			return nil, errURL
		}
	}
	return config, nil
}

var (
	isURL      = regexp.MustCompile(`^postgres(ql)?://`)
	inURL      = regexp.MustCompile(`^postgres(ql)?://.*[?&]sslmode=[a-z]`)
	inKeywords = regexp.MustCompile(`(^|\s)sslmode\s*=\s*'?[a-z]`)

	isHost      = regexp.MustCompile(`^([/@].+|[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?)$`) // a socket or a name
	isParameter = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)
	isOurs      = regexp.MustCompile(`^(?i:timezone|datestyle)$`) // not the operator's
)

// verify sets sslmode=verify-full for each host except this machine.
func verify(config *pgx.ConnConfig) {
	var ways []*pgconn.FallbackConfig
	for _, host := range byHost(config) {
		if isHere(host[0]) {
			ways = append(ways, host...)
			continue
		}
		verified := &tls.Config{} //nolint:gosec // the minimum version of Go, 1.2
		for _, way := range host {
			if way.TLSConfig != nil { // with the roots and the client certificate of the URL
				verified = way.TLSConfig.Clone()
			}
		}
		verified.InsecureSkipVerify, verified.VerifyPeerCertificate, verified.ServerName = false, nil, host[0].Host
		ways = append(ways, &pgconn.FallbackConfig{Host: host[0].Host, Port: host[0].Port, TLSConfig: verified})
	}
	config.Host, config.Port, config.TLSConfig, config.Fallbacks = ways[0].Host, ways[0].Port, ways[0].TLSConfig, ways[1:]
}

// isHere reports whether a connection stays on this machine.
func isHere(way *pgconn.FallbackConfig) bool {
	protocol, _ := pgconn.NetworkAddress(way.Host, way.Port)
	return protocol == "unix" || network.IsLoopback(way.Host)
}

// byHost groups the ways to connect by server. A host has two ways if TLS is preferred but not required.
func byHost(config *pgx.ConnConfig) (hosts [][]*pgconn.FallbackConfig) {
	ways := append([]*pgconn.FallbackConfig{{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig}}, config.Fallbacks...)
	for _, way := range ways {
		i := slices.IndexFunc(hosts, func(host []*pgconn.FallbackConfig) bool {
			return host[0].Host == way.Host && host[0].Port == way.Port
		})
		if i < 0 {
			hosts = append(hosts, nil)
			i = len(hosts) - 1
		}
		hosts[i] = append(hosts[i], way)
	}
	return hosts
}

// ErrUntold means that PgBouncer does not tell this user about itself.
var ErrUntold = errors.New("PgBouncer tells nothing to this user: add it to stats_users")

// Pooler is what PgBouncer tells of itself.
type Pooler struct {
	Size      int // connections of PostgreSQL that it has for a database
	QueryWait int // seconds for which a statement waits for one of them; 0 is for ever
}

// PoolerOf asks the PgBouncer at url. The Pooler is empty if url leads to PostgreSQL itself. Error: ErrUntold.
func PoolerOf(ctx context.Context, url string) (pooler Pooler, err error) {
	config, err := parseURL(url)
	if err != nil {
		return Pooler{}, err
	}
	name := config.ConnConfig.Database
	config.ConnConfig.Database = "pgbouncer" // its console, which speaks the simple protocol alone
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	config.ConnConfig.ValidateConnect = nil // target_session_attrs is about PostgreSQL
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) {
		if Code(refused.Code) == protocolViolation {
			return Pooler{}, ErrUntold
		}
		return Pooler{}, nil // PostgreSQL has no such database, or not for this user
	}
	if err != nil {
		return Pooler{}, ConnectError(config.ConnConfig, err)
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, shown := range []struct {
		table, row, of, column string
		value                  *int
	}{{"databases", "name", name, "pool_size", &pooler.Size}, {"config", "key", "query_wait_timeout", "value", &pooler.QueryWait}} {
		rows, err := conn.Query(ctx, "show "+shown.table)
		if err != nil {
			return Pooler{}, nil // a database of PostgreSQL that has this name
		}
		list, err := pgx.CollectRows(rows, pgx.RowToMap)
		for _, row := range list {
			if row[shown.row] == shown.of && err == nil {
				*shown.value, err = strconv.Atoi(fmt.Sprint(row[shown.column]))
			}
		}
		if err != nil {
			return Pooler{}, err
		}
	}
	return pooler, nil
}

// Security returns a few words on how the connection to the database at url is protected. If the URL names several hosts, they are
// about the least protected one.
func Security(url string) (string, error) {
	config, err := parseURL(url)
	if err != nil {
		return "", err
	}
	least := 0
	for _, host := range byHost(config.ConnConfig) {
		least = max(least, securityOf(host))
	}
	return securities[least], nil
}

// securities are the levels of security, from the best to the worst.
var securities = [...]string{
	"stays on this machine",
	"TLS is verified",
	"TLS does not verify the server's name (sslmode=verify-ca)",
	"TLS is not verified (sslmode=require)",
	"TLS is not verified (sslmode=prefer)",
	"TLS is not verified (sslmode=allow)",
	"TLS is not verified (sslmode=disable)",
}

func securityOf(host []*pgconn.FallbackConfig) int {
	first, last := host[0].TLSConfig, host[len(host)-1].TLSConfig
	switch {
	case isHere(host[0]):
		return 0
	case first == nil && last == nil:
		return 6
	case first == nil:
		return 5
	case last == nil:
		return 4
	case !first.InsecureSkipVerify:
		return 1
	case first.VerifyPeerCertificate != nil:
		return 2
	}
	return 3
}
