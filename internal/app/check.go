package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/admin/servers"
	"connect-svc/internal/app/listener"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/ratelimit"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/postgres/citus"
	"connect-svc/internal/foundation/postgres/migrate"
	"connect-svc/internal/foundation/work"
)

// maxClockDifference is far more than machines that keep the time differ by.
const maxClockDifference = 2 * time.Second

// soon is how long before its end a certificate should have been replaced.
const soon = 14 * 24 * time.Hour

// lackingCommits asks the operator for a reconciliation.
const lackingCommits = "the database was restored, or a replica took over: what has ended since may be alive; " +
	"run connect-svc restore reconcile, see Backup and restore (docs/backup.md). If its original is in use, this server sends again what that one " +
	"has sent: stop it, and look at the copy with connect-svc serve --read-only"

// Skipped is the result of a check that cannot be made, or need not be. Its text says why.
type Skipped string

func (s Skipped) Error() string { return string(s) }

// Check tries everything that the service needs, and changes nothing. It reports each check with its name and with what was
// found, or with an error: [Skipped], or a problem. Fields of the configuration may be empty if their settings cannot be used.
func Check(ctx context.Context, c Config, report func(check, detail string, err error)) {
	for _, check := range []struct {
		name string
		run  func(context.Context) (string, error)
	}{
		{"certificate", func(ctx context.Context) (string, error) {
			return checkCertificate(ctx, c.Certificate, c.BaseURL, c.Listen)
		}},
		{"private certificate", func(ctx context.Context) (string, error) {
			return checkCertificate(ctx, c.PrivateCertificate, "", c.PrivateListen)
		}},
		{"mail server", c.checkMail},
		{"rate limiter", c.checkLimiter},
		{"read replicas", c.checkReplicas},
		{"listeners", c.checkListeners},
	} {
		ctx, cancel := context.WithTimeout(ctx, work.DefaultLimits.Check)
		detail, err := check.run(ctx)
		cancel()
		report(check.name, detail, err)
	}
	everyone := func(prefix netip.Prefix) bool { return prefix.Bits() == 0 }
	if slices.ContainsFunc(c.TrustedProxies, everyone) {
		report("trusted proxies", "", errors.New("every address is one: anyone could name any address in X-Forwarded-For, and pass the sign-in limits"))
	}
	if slices.ContainsFunc(c.Webhooks.AllowedNetworks, everyone) {
		report("webhooks", "", errors.New("every address may be reached: a partner could have the service call any server of your own network"))
	}
	if c.Texts != nil && slices.Contains(c.Texts.Tags(), "pt") {
		report("texts", "warning: pt.toml is for those who ask for Portuguese without a country; name it pt-BR.toml or pt-PT.toml", nil)
	}
	c.checkDurations(report)
	c.checkProxy(ctx, report)
	c.checkDatabase(ctx, report)
}

// checkListeners returns an error if another program listens where the service would. A server of this service that runs already may.
func (c Config) checkListeners(ctx context.Context) (string, error) {
	var taken []error
	for _, at := range []struct {
		setting, address, path string
		ours                   func(body string) bool
	}{
		{"CONNECT_LISTEN", c.Listen, "/.well-known/oauth-authorization-server", func(body string) bool { return strings.Contains(body, `"issuer":"`+c.BaseURL+`"`) }},
		{"CONNECT_PRIVATE_LISTEN", c.PrivateListen, "/healthz", isHealthy},
		{"CONNECT_READY_LISTEN", c.ReadyListen, "/healthz", isHealthy},
	} {
		address := dialable(at.address)
		if _, body := asked(ctx, address, at.path); listens(ctx, address) && !at.ours(body) {
			taken = append(taken, fmt.Errorf("another program, or a server that runs with other settings, listens at %s (%s)", at.address, at.setting))
		}
	}
	if len(taken) > 0 {
		return "", errors.Join(taken...)
	}
	if host, _, _ := net.SplitHostPort(c.PrivateListen); c.PrivateCertificate == nil && (host == "" || isUnspecified(host)) {
		return "warning: the private listener takes operators' tokens without TLS at every address of this machine: give it a certificate " +
			"(CONNECT_PRIVATE_TLS_CERT), or an address that others cannot reach", nil
	}
	return "no other program has their ports", nil
}

func isHealthy(body string) bool { return strings.TrimSpace(body) == `{"status":"ok"}` }

func isUnspecified(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsUnspecified()
}

// dialable returns where this machine reaches what listens at an address.
func dialable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || isUnspecified(host) {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}

// listens reports whether somebody listens at an address.
func listens(ctx context.Context, address string) bool {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

// asked returns the headers of what a server answers, with or without TLS, and the beginning of the body of a 200.
func asked(ctx context.Context, address, path string) (header http.Header, body string) {
	// It is looked at, and not trusted.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true} //nolint:gosec // see above
	client := http.Client{Transport: transport, Timeout: time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, scheme := range []string{"https", "http"} {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+address+path, nil)
		if err != nil {
			return nil, ""
		}
		answer, err := client.Do(request)
		if err != nil {
			continue
		}
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10)) // a part of it says as much
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			text = nil
		}
		return answer.Header, string(text)
	}
	return nil, ""
}

// checkProxy returns an error if the proxy answers by itself where there are pages that release 1.0.0 lacked. It reports nothing without a proxy,
// and goes when every proxy has been told (until 1.3.0).
func (c Config) checkProxy(ctx context.Context, report func(check, detail string, err error)) {
	base, err := url.Parse(c.BaseURL)
	if err != nil || base.Host == "" || len(c.TrustedProxies) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, work.DefaultLimits.Check)
	defer cancel()
	var kept []string
	for _, page := range []struct {
		path   string
		served bool
	}{{"/account/receipt/", c.Accounts.Receipts}, {"/partners", c.PartnerPortal}, {"/.well-known/security.txt", c.SecurityContact != ""}} {
		header, _ := asked(ctx, base.Host, page.path)
		if header == nil {
			report("proxy", "", Skipped("the base URL cannot be reached from here"))
			return
		}
		// The service sends one with every page, also with a 404.
		if page.served && header.Get("Content-Security-Policy") == "" {
			kept = append(kept, page.path)
		}
	}
	if len(kept) > 0 {
		err = fmt.Errorf("answers by itself at %s: pass these paths on to the service", strings.Join(kept, ", "))
	}
	report("proxy", "passes on the pages that are newer than release 1.0.0", err)
}

// checkDurations warns of times that a test may want, and no service. It reports nothing if there are none.
func (c Config) checkDurations(report func(check, detail string, err error)) {
	var short []string
	for _, setting := range []struct {
		name        string
		value, less time.Duration
	}{
		{"CONNECT_REFRESH_INACTIVITY", c.OAuth.RefreshInactivity, 24 * time.Hour},
		{"CONNECT_AUDIT_RETENTION", c.AuditRetention, 26 * time.Hour}, // a day is counted until an hour after its end
		{"CONNECT_ACCESS_TOKEN_LIFETIME", c.OAuth.AccessTokenLifetime, 10 * time.Second},
		{"CONNECT_CODE_LIFETIME", c.OAuth.CodeLifetime, 10 * time.Second},
		{"CONNECT_REQUEST_LIFETIME", c.OAuth.RequestLifetime, time.Minute},
	} {
		if setting.value > 0 && setting.value < setting.less {
			short = append(short, fmt.Sprintf("%s is %s", setting.name, setting.value))
		}
	}
	if len(short) > 0 {
		report("times", "warning: "+strings.Join(short, ", ")+": too short for anything but a test", nil)
	}
}

// checkCertificate returns an error if no caller can connect with the certificate, or if it ends before the one that a running server
// presents at an address. The base URL names the host to which callers connect; it is empty if the host is unknown.
func checkCertificate(ctx context.Context, read listener.Certificate, baseURL, address string) (string, error) {
	if read == nil {
		return "", Skipped("none")
	}
	base, err := url.Parse(baseURL)
	if err != nil {
		return "", err
	}
	pair, err := read()
	if err != nil {
		return "", err
	}
	if problem := listener.Problem(pair.Leaf, base.Hostname(), time.Now()); problem != "" {
		return "", errors.New(problem)
	}
	presented := presentedAt(ctx, address)
	if presented != nil && pair.Leaf.NotAfter.Before(presented.NotAfter) {
		return "", fmt.Errorf("ends %s, sooner than the one that the service presents, which ends %s",
			pair.Leaf.NotAfter.UTC().Format(time.RFC3339), presented.NotAfter.UTC().Format(time.RFC3339))
	}
	detail := "can be used by callers until " + pair.Leaf.NotAfter.UTC().Format(time.RFC3339)
	if left := time.Until(pair.Leaf.NotAfter); left < soon {
		detail = fmt.Sprintf("warning: %s, for %d more days", detail, int(left.Hours()/24))
	}
	return detail, nil
}

// presentedAt returns the certificate that a server on this machine presents, nil if none listens there or speaks TLS.
func presentedAt(ctx context.Context, address string) *x509.Certificate {
	// It is looked at, and not trusted.
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}} //nolint:gosec // see above
	conn, err := dialer.DialContext(ctx, "tcp", dialable(address))
	if err != nil {
		return nil
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
}

func (c Config) checkMail(ctx context.Context) (string, error) {
	if c.Mailer == nil {
		return "", Skipped("its settings cannot be used")
	}
	takes := "takes a session"
	offered, err := c.Mailer.Check(ctx)
	if offered {
		takes += ", also for addresses that are not ASCII before the @ (SMTPUTF8)"
	} else {
		takes += ", not for addresses that are not ASCII before the @ (no SMTPUTF8)"
	}
	return secured(takes, c.Mailer.Security(), err)
}

func (c Config) checkLimiter(ctx context.Context) (string, error) {
	if c.LimiterURL == "" {
		return "", Skipped("is in PostgreSQL")
	}
	store, err := ratelimit.OpenRedis(ctx, c.LimiterURL, work.DefaultLimits.Limiter)
	if err == nil {
		err = ratelimit.New(store, work.DefaultLimits.Limiter).Check(ctx)
		store.Close()
	}
	return secured("answers", ratelimit.RedisSecurity(c.LimiterURL), err)
}

func (c Config) checkReplicas(ctx context.Context) (string, error) {
	if c.DatabaseReadURL == "" {
		return "", Skipped("none")
	}
	security, _ := postgres.Security(c.DatabaseReadURL) // a wrong URL is an error of what follows, too
	hosts, err := postgres.OpenHosts(ctx, c.DatabaseReadURL)
	if err != nil {
		return "", err
	}
	problems := make([]error, len(hosts))
	var all sync.WaitGroup
	for i, host := range hosts {
		all.Go(func() {
			defer host.Pool.Close()
			var replica bool
			if err := host.Pool.QueryRow(ctx, "select pg_is_in_recovery()").Scan(&replica); err != nil {
				problems[i] = fmt.Errorf("%s: %s", host.Name, postgres.Reason(err))
			} else if !replica {
				problems[i] = fmt.Errorf("%s is not a replica, so no read is sent there", host.Name)
			}
		})
	}
	all.Wait()
	return secured("all answer", security, errors.Join(problems...))
}

// secured adds to the result of a check how the connection to the server is protected, also if the server does not answer.
func secured(detail, security string, err error) (string, error) {
	if err != nil {
		return "", fmt.Errorf("%w; %s", err, security)
	}
	return detail + "; " + security, nil
}

func (c Config) checkDatabase(ctx context.Context, report func(check, detail string, err error)) {
	ctx, cancel := context.WithTimeout(ctx, work.DefaultLimits.Check)
	defer cancel()
	var pool *postgres.Pool
	detail, err := "", error(Skipped("its URL cannot be used"))
	if c.DatabaseURL != "" {
		var security string
		if security, err = postgres.Security(c.DatabaseURL); err == nil {
			pool, err = postgres.Open(ctx, c.DatabaseURL)
			detail, err = secured("answers", security, err)
		}
	}
	report("database", detail, err)
	if err != nil {
		for _, check := range []string{"schema", "clock", "keyset"} {
			report(check, "", Skipped("no database"))
		}
		return
	}
	defer pool.Close()

	found, err := migrate.SchemaOf(ctx, pool)
	schema := fits(found, err)
	report("schema", "is one that this program works on", schema)
	older := found.Current > 0 && found.Current < found.Needed
	if older { // an upgrade is ahead: look at as much as can be known before it
		now := report
		report = func(check, detail string, err error) {
			if postgres.Is(err, postgres.UndefinedTable) || postgres.Is(err, postgres.UndefinedColumn) || postgres.Is(err, postgres.UndefinedFunction) {
				err = Skipped("after the migration")
			}
			now(check, detail, err)
		}
		schema = nil
	}

	if schema == nil {
		if may, err := postgres.MayLackCommits(ctx, pool); may || err != nil {
			report("history", "warning: "+lackingCommits, err)
		}
		if cluster, err := citus.Check(ctx, pool); cluster || err != nil {
			if older {
				err = errors.New("after `connect-svc migrate up` run `connect-svc migrate distribute`")
			}
			report("cluster", "each node suits the service", err)
		}
		c.checkPooler(ctx, pool, report)
		if problem := checkEncoding(ctx, pool); problem != nil {
			report("encoding", "", problem)
		}
		if problem := unusableAddresses(account.New(pool, nil, nil, account.Settings{}).UnusableAddresses(ctx)); problem != nil {
			report("addresses", "", problem)
		}
	}

	detail, err = "", error(Skipped("no schema"))
	if schema == nil {
		var difference time.Duration
		difference, err = postgres.ClockDifference(ctx, pool)
		detail = fmt.Sprintf("the database's is %s ahead of this machine's", difference.Round(time.Millisecond))
		if err == nil && difference.Abs() > maxClockDifference {
			err = errors.New(detail)
		}
	}
	report("clock", detail, err)

	err = error(Skipped("no keyset, or no schema"))
	if schema == nil && c.Keys != nil {
		err = c.Keys.TryMarks(ctx, pool)
	}
	report("keyset", "is the database's", err)

	if schema == nil {
		checkTimezones(ctx, pool, report)
	}
}

// checkPooler compares the pools of all servers with the connections that PgBouncer or, without it, PostgreSQL has for them.
func (c Config) checkPooler(ctx context.Context, pool *postgres.Pool, report func(check, detail string, err error)) {
	pooler, err := postgres.PoolerOf(ctx, c.DatabaseURL)
	name, size, set := "pooler", pooler.Size, "set pool_max_conns=%d in the URL, see PgBouncer (docs/scaling.md)"
	if size == 0 && err == nil {
		name, set = "connections", "raise max_connections, or the limit of the role or the database, or set pool_max_conns=%d in the URL"
		err = pool.QueryRow(ctx, `select least(current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
			nullif(rolconnlimit, -1), nullif(datconnlimit, -1)) from pg_roles, pg_database where rolname = current_user and datname = current_database()`).Scan(&size)
	}
	var list []servers.Server
	if err == nil {
		list, err = servers.New(pool, "", "", "", time.Time{}).List(ctx)
	}
	if errors.Is(err, postgres.ErrUntold) {
		err = Skipped(err.Error())
	}
	running := max(1, len(slices.DeleteFunc(list, servers.Server.Lost)))
	detail := fmt.Sprintf("servers: %d, with %d connections each, which share %d of PostgreSQL", running, pool.MaxConns(), size)
	if err == nil && running*pool.MaxConns() > size {
		err = fmt.Errorf("%s: "+set, detail, max(1, size/running))
	}
	if wait := pooler.QueryWait; err == nil && name == "pooler" && (wait == 0 || time.Duration(wait)*time.Second > work.DefaultLimits.Act) {
		err = fmt.Errorf("query_wait_timeout is %d: PgBouncer goes on with what nobody waits for any more; set 4, see docs/pgbouncer.ini", wait)
	}
	report(name, detail, err)
}

// checkTimezones warns of users whose days may be off by one. It reports nothing if all time zones are known.
func checkTimezones(ctx context.Context, pool *postgres.Pool, report func(check, detail string, err error)) {
	names, users, err := account.UnknownTimezones(ctx, pool)
	switch {
	case err != nil:
		report("time zones", "", Skipped("the users cannot be read in time: "+postgres.Reason(err)))
	case users > 0:
		const shown = 10
		more := ""
		if n := len(names) - shown; n > 0 {
			names, more = names[:shown], fmt.Sprintf(" and %d more", n)
		}
		report("time zones", fmt.Sprintf("warning: %d users have time zones that this machine does not know, so their days are those of UTC "+
			"and may be off by one: %q%s; change them with connect-svc user update", users, names, more), nil)
	}
}

// checkEncoding returns an error for a database that cannot store all texts. SQL_ASCII stores the bytes that it is given, and the program gives
// valid UTF-8.
func checkEncoding(ctx context.Context, pool *postgres.Pool) error {
	var encoding string
	if err := pool.QueryRow(ctx, "select current_setting('server_encoding')").Scan(&encoding); err != nil {
		return err
	}
	if encoding != "UTF8" && encoding != "SQL_ASCII" {
		return fmt.Errorf("is %s, in which not every name can be stored: move the data to a database whose encoding is UTF8", encoding)
	}
	return nil
}

// unusableAddresses names users who cannot sign in with their address, at most ten of each kind.
func unusableAddresses(users account.UnusableAddresses, err error) error {
	if err != nil {
		return err
	}
	var problems []string
	for _, kind := range []struct {
		problem string
		users   []uuid.UUID
	}{{"share their address with another user", users.Shared}, {"have an address that is not valid", users.Invalid}} {
		if len(kind.users) > 0 {
			problems = append(problems, fmt.Sprintf("users %s and cannot sign in, %d in all, see Users (docs/operations.md): %s",
				kind.problem, len(kind.users), strings.Join(postgres.Map(kind.users[:min(len(kind.users), 10)], uuid.UUID.String), " ")))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(problems, "; "))
}

// CheckSchema returns an error unless this program works on the database: the database has all migrations of this program, and none of
// a later program that removes something this program uses. A [migrate.Misfit] says what to do.
func CheckSchema(ctx context.Context, pool *postgres.Pool) error {
	return fits(migrate.SchemaOf(ctx, pool))
}

func fits(schema migrate.Schema, err error) error {
	switch {
	case err != nil:
		return err
	case schema.Current < schema.Needed:
		return migrate.Misfit(fmt.Sprintf("the database is at migration %d and this program needs %d: run `connect-svc migrate up`",
			schema.Current, schema.Needed))
	case schema.Needed < schema.Oldest:
		return migrate.Misfit(fmt.Sprintf("the database is at migration %d, for programs that know %d or more, and this one knows %d: "+
			"run a newer program, or take migrations back with its `connect-svc migrate down`",
			schema.Current, schema.Oldest, schema.Needed))
	}
	return nil
}
