// Package sandbox runs the service for a partner's tests: everything on loopback, with clients and synthetic users, on
// a database that is deleted when it stops. A test uses the driver, api/sandbox.yaml, to act as the user, to move the clock
// and to force errors.
//
// The service is the real one, put together by package app as for `connect-svc serve`. Users consent through package oauth, package
// activity writes activity, and package webhook sends webhooks. The driver moves the service's own clock (clock.Clock), so that
// every expiry follows it. `connect-svc serve` cannot do this: neither it nor package app imports this package, and no setting
// turns it on.
//
// # Invariants
//
//   - A forced answer is one that the contract has for the operation, and the partner edge writes it. The request that gets it does not
//     reach the service (TestPartner).
//   - Nobody has the key of the certificate authority that tests trust (authority.TestOnce).
//   - A webhook without TLS goes to this machine only (TestCheckReceiver, TestPlainTransportStaysHere).
//   - The sandbox listens on loopback only, unless the driver requires a token (connect-svc.TestSandboxRefusals).
//   - A sandbox leaves nothing behind after it is stopped or a part of it fails. Any number of them run side by side (TestSideBySide).
//   - The clock moves with all that users record until then, or an error changes nothing (TestClockMovesWhole).
//   - With a seed and a time, ids, secrets, data and clock are the same each time (TestSeedRepeats).
//   - The records of a user depend only on the kind, the user's number and the date, so that they are the same in each sandbox
//     (TestRecords).
package sandbox

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/admin/portal"
	"connect-svc/internal/app"
	"connect-svc/internal/app/listener"
	"connect-svc/internal/app/settings"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/edge/developers"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/postgres/clock"
	"connect-svc/internal/foundation/postgres/migrate"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/local/authority"
	"connect-svc/internal/local/embedded"
	"connect-svc/internal/local/mailcatcher"
	"golang.org/x/sync/errgroup"
)

// Config of a sandbox. The caller has checked it, except for the values that the domains check themselves.
type Config struct {
	Version, Commit string // of the program, which the service reports

	Listen        string    // address of the public listener, on loopback unless there is a DriverToken; port 0 is any free one
	PrivateListen string    // the same for the private listener, which has the driver
	DriverToken   string    // Bearer token of requests to the driver; empty: none is needed
	Hosts         []string  // names besides localhost that reach it, in lower case; the first is in the base URL
	CallbackURL   string    // of the first client
	Clients       []Client  // further ones
	WebhookURL    string    // receives the webhooks of these clients, see [CheckReceiver]; empty: a receiver inside the sandbox
	CAFile        string    // file for the certificate authority; empty: one in the sandbox's own directory
	Seed          *uint64   // the same ids, secrets and data each time; nil: random
	Now           time.Time // start of its clock; zero: the real time
	Logger        *slog.Logger
	Limits        work.Limits // of the service and the driver
	// Sent is called after each attempt to send a webhook, concurrently; nil: nothing is called.
	Sent func(sandboxapi.Webhook, sandboxapi.Try)
	// Ready is called once, when everything is ready. An error stops the sandbox.
	Ready func(sandboxapi.Sandbox) error
}

// policy is the rate policy of clients unless another one is asked for, as the document states it.
var policy = client.Policy{RequestsPerMinute: 600, Burst: 60, ConcurrentReads: 10}

// loopback networks may receive webhooks here, besides public addresses.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// Run runs a sandbox until ctx ends, and then returns nil, or until a part of it fails. The error is one line.
func Run(ctx context.Context, config Config) error { return (&sandbox{config: config}).live(ctx) }

func (s *sandbox) live(ctx context.Context) error {
	s.config.Limits = s.config.Limits.OrDefault()
	defer s.close()
	err := s.open(ctx)
	if err == nil {
		err = s.run(ctx)
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	return nil
}

type sandbox struct {
	config    Config
	dir       string // removed at the end
	baseURL   string
	authority *authority.Authority
	clock     clock.Clock

	public, private, receiver, smtp, mailPage net.Listener

	database     *embedded.Server
	service      *app.App
	mail         mailcatcher.Catcher
	answers      *answers
	sent         recent[sandboxapi.Webhook]       // webhooks
	disturbances disturbances                     // of webhooks
	asked        recent[sandboxapi.LoggedRequest] // requests to the public listener
	driver       http.Handler

	clients clients
	people  people

	// random is the source of the service's ids and secrets, and userIDs that of the ids of users. They are separate so that adding a
	// user does not change the grants that follow.
	random, userIDs io.Reader
}

func (s *sandbox) open(ctx context.Context) (err error) {
	if s.answers, err = newAnswers(); err != nil {
		return err
	}
	s.people.growing, s.clients.changing = work.NewQueue(1, 100), work.NewQueue(1, 100)
	s.random, s.userIDs = newRandom(s.config.Seed, "service"), newRandom(s.config.Seed, "users")
	if !s.config.Now.IsZero() {
		s.clock.Set(time.Until(s.config.Now))
	}
	s.mail.Now = s.clock.Now
	if s.dir, err = os.MkdirTemp("", "connect-svc-sandbox-"); err != nil {
		return err
	}
	if err := s.listen(ctx); err != nil {
		return err
	}
	authorityFile, err := filepath.Abs(cmp.Or(s.config.CAFile, filepath.Join(s.dir, "ca.pem")))
	if err != nil {
		return fmt.Errorf("--ca-file: %w", err)
	}
	if s.authority, err = authority.Once(authorityFile, time.Now(), s.config.Hosts...); err != nil {
		return fmt.Errorf("--ca-file: %w", err)
	}
	schema, err := migrate.Sum()
	if err != nil {
		return err
	}
	migrated := func(ctx context.Context, url string) error {
		_, err := migrate.Apply(ctx, url, migrate.Up)
		return err
	}
	if s.database, err = embedded.StartCopy(ctx, embedded.Config{Limits: s.config.Limits}, schema, migrated); err != nil {
		return err
	}
	if err := migrated(ctx, s.database.URL()); err != nil {
		return err
	}
	if err := s.openService(ctx); err != nil {
		return err
	}
	if s.driver, err = newDriver(s, &s.config.Limits); err != nil {
		return err
	}
	return s.seed(ctx)
}

// listen opens the listeners. It runs first, because a port in use is the most likely reason for a failed start.
func (s *sandbox) listen(ctx context.Context) (err error) {
	for _, l := range []struct {
		listener *net.Listener
		address  string
		flag     string
	}{
		{&s.public, s.config.Listen, "--listen"},
		{&s.private, s.config.PrivateListen, "--private-listen"},
		{&s.receiver, "127.0.0.1:0", "receiver of webhooks"},
		{&s.smtp, "127.0.0.1:0", "mail catcher"},
		{&s.mailPage, "127.0.0.1:0", "mail catcher"},
	} {
		if *l.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", l.address); err != nil {
			return fmt.Errorf("%s: %w", l.flag, err)
		}
	}
	host, _, err := net.SplitHostPort(s.config.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	host = s.reachedBy(host)
	_, port, err := net.SplitHostPort(s.public.Addr().String())
	s.baseURL = "https://" + net.JoinHostPort(host, port)
	return err
}

// reachedBy returns the host in the URL of a listener. A listener on all addresses gets a name.
func (s *sandbox) reachedBy(host string) string {
	address, err := netip.ParseAddr(host)
	switch {
	case err != nil || !address.IsUnspecified():
		return host
	case len(s.config.Hosts) > 0:
		return s.config.Hosts[0]
	}
	return "localhost"
}

func (s *sandbox) openService(ctx context.Context) error {
	keyset := filepath.Join(s.dir, "keyset.json")
	if err := credential.CreateKeyset(keyset); err != nil {
		return err
	}
	keys, err := credential.LoadKeyring(keyset)
	if err != nil {
		return err
	}
	var identifierKey [32]byte
	if _, err := io.ReadFull(s.random, identifierKey[:]); err != nil {
		return err
	}
	keys.UseIdentifierKey(identifierKey)
	mailer, err := account.NewMailer("smtp://"+s.smtp.Addr().String(), "Activity Connect <no-reply@connect.example>")
	if err != nil {
		return err
	}
	receivers, err := x509.SystemCertPool() // of authorities whose webhook receivers are trusted
	if err != nil {
		receivers = x509.NewCertPool() // this machine has no pool
	}
	receivers.AddCert(s.authority.Certificate)
	s.service, err = app.Open(ctx, app.Config{
		Version:         s.config.Version,
		Commit:          s.config.Commit,
		BaseURL:         s.baseURL,
		Database:        settings.Database{DatabaseURL: s.database.URL()},
		Keys:            keys,
		Listener:        s.public,
		PrivateListener: s.private,
		PrivateHosts:    s.config.Hosts,
		Certificate:     listener.FixedCertificate(&s.authority.Server),
		Mailer:          mailer,
		Accounts:        account.Settings{Receipts: true},
		OAuth:           oauth.DefaultSettings,
		Random:          s.random,
		Activity:        activity.Settings{CursorLifetime: 15 * time.Minute},
		DevelopersSite:  true,
		PartnerPortal:   true,
		PortalChanges:   portal.Changes{Webhooks: true, Secrets: true},
		Programs:        developers.OwnPrograms(),
		AuthorityFile:   s.authority.File,

		Webhooks: webhook.Settings{
			Window:          0, // a test waits for the event
			AllowedNetworks: loopback,
			RootCAs:         receivers,
			Transport:       func(network http.RoundTripper) http.RoundTripper { return recorder{s, network, newPlain()} },
		},

		Public: func(service http.Handler) http.Handler {
			failing := s.answers.before(service)
			return listener.OnlyHosts(s.config.Hosts, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				failing.ServeHTTP(explained{w, r, s}, r)
			}))
		},
		Private: s.driving,
		Observe: s.observe,
		Clock:   &s.clock,
		Logger:  s.config.Logger,
		Limits:  s.config.Limits,
	})
	return err
}

func (s *sandbox) seed(ctx context.Context) error {
	for _, partner := range append([]Client{{"Sandbox Partner", s.config.CallbackURL}}, s.config.Clients...) {
		registration := client.Registration{Name: partner.Name, CallbackURL: partner.CallbackURL, Scopes: scope.All, Policy: policy}
		_, err := s.addClient(ctx, registration, s.config.WebhookURL)
		if wrong, ok := errors.AsType[refusal.Field](err); ok {
			return fmt.Errorf("client %q: %s %s", partner.Name, wrong.Path, wrong.Problem)
		}
		if err != nil {
			return err
		}
	}
	for _, first := range firstPeople {
		if _, err := s.addPerson(ctx, first.kind, first.timezone); err != nil {
			return err
		}
	}
	return nil
}

// run serves everything until ctx ends or a part fails.
func (s *sandbox) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.service.Run(ctx) })
	group.Go(func() error { return s.mail.ServeSMTP(ctx, s.smtp, s.config.Logger) })
	group.Go(func() error { return listener.ServeLocally(ctx, s.mailPage, nil, s.mail.Handler(), 0, s.config.Logger) })
	group.Go(func() error {
		return listener.ServeLocally(ctx, s.receiver, &s.authority.Server, http.HandlerFunc(receive), 0, s.config.Logger)
	})
	group.Go(func() error {
		// Users record when days begin. The service delivers webhooks by the clock itself.
		work.Every(ctx, growEvery, func() {
			limited, cancel := context.WithTimeout(ctx, s.config.Limits.Batch)
			defer cancel()
			if err := s.growAll(limited, 0); err != nil && ctx.Err() == nil {
				s.config.Logger.Error("follow the clock", "cause", err)
			}
		})
		return nil
	})
	group.Go(func() error { return s.database.Watch(ctx) })
	if err := s.config.Ready(s.describe()); err != nil {
		group.Go(func() error { return err })
	}
	return group.Wait()
}

func (s *sandbox) describe() sandboxapi.Sandbox {
	all := s.clients.all()
	s.people.mu.RLock()
	users := postgres.Map(s.people.list, s.describePerson)
	s.people.mu.RUnlock()
	host, port, _ := net.SplitHostPort(s.private.Addr().String()) // a listener's own address has both
	return sandboxapi.Sandbox{
		BaseUrl:   s.baseURL,
		DriverUrl: "http://" + net.JoinHostPort(s.reachedBy(host), port),
		MailUrl:   "http://" + s.mailPage.Addr().String(),
		CaFile:    s.authority.File,
		Now:       instant(s.clock.Now()),
		Client:    all[0],
		Clients:   all,
		Users:     users,
	}
}

// close releases what open acquired, the database last, and removes all files.
func (s *sandbox) close() {
	if s.service != nil {
		s.service.Close()
	}
	for _, l := range []net.Listener{s.public, s.private, s.receiver, s.smtp, s.mailPage} {
		if l != nil {
			_ = l.Close() // already closed if it was served
		}
	}
	if s.database != nil {
		if err := s.database.Stop(); err != nil {
			s.config.Logger.Error("stop", "cause", err)
		}
	}
	if s.authority != nil {
		_ = os.Remove(s.authority.File)
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

// instant formats a time with exactly three fractional digits.
func instant(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
