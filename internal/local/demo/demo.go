// Package demo runs everything that the service needs on this machine, with one command.
//
// It starts a private PostgreSQL, a certificate authority, a mail catcher, the service itself and an example partner
// (package connect.invalid/examples/partner, on the Go SDK), all on loopback, fills in two users with a year of activity, and keeps adding today's.
//
// The service is the real one, put together by package app as for `connect-svc serve`. Even the connection that exists from the start
// was made by package oauth, on a database connection whose clock was set back 30 days, because a connection can read only from the
// day of consent on.
//
// # Invariants
//
//   - Everything is in one directory, where the next start finds it. Missing parts are created, so that a start repairs an interrupted
//     one (TestDemo, TestFilesCutOff).
//   - An ephemeral demo keeps nothing (TestEphemeralKeepsNothing).
//   - The demo ends as a whole: Ctrl-C, a failed part or a port in use ends all of it, the database last (TestTakenPort).
//
// Secrets are files that only their owner can read.
package demo

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/mail"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"connect-svc/internal/admin/operators"
	"connect-svc/internal/admin/portal"
	"connect-svc/internal/app"
	"connect-svc/internal/app/listener"
	"connect-svc/internal/app/settings"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/edge/console"
	"connect-svc/internal/edge/developers"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/locale"
	"connect-svc/internal/foundation/postgres/migrate"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/local/authority"
	"connect-svc/internal/local/embedded"
	"connect-svc/internal/local/mailcatcher"
	"connect.invalid/examples/partner"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
)

// Config of the demo.
type Config struct {
	Version, Commit string // of the program, which the service reports

	Dir       string // for all files; created if it is missing
	Ephemeral bool   // keep nothing, and ignore Dir
	// Port of the service; the partner has the next one. 0 takes any free ports, for tests: data of an earlier start belong to its
	// addresses.
	Port        int
	MailPort    int               // of the page with the caught mail; 0: any free port
	ConsolePort int               // of the private listener, which has the console; 0: any free port
	Brand       brand.Brand       // of the service; without a name: the program's own
	Texts       *locale.Catalogue // nil: the built-in ones
	Every       time.Duration     // how often today's activity grows
	Window      time.Duration     // in which changes of activity are merged into one event
	Limits      work.Limits       // of the service; the zero value is work.DefaultLimits
	Out         io.Writer         // for the addresses to open
	Started     func(Addresses)
}

// activityWindow is shorter than the service's default, because a person waits.
const activityWindow = 20 * time.Second

// loopback is the network of all parts.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// Addresses to open.
type Addresses struct {
	Service string // origin of the service, its issuer
	Partner string
	Mail    string
	Private string // of the service's private listener
	Dir     string
}

// Run runs the demo until ctx ends, and then returns nil, or until a part of it fails. The error is one line.
func Run(ctx context.Context, config Config) (err error) {
	if config.Ephemeral {
		if config.Dir, err = os.MkdirTemp("", "connect-svc-demo-"); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(config.Dir) }()
	}
	if config.Dir, err = filepath.Abs(config.Dir); err != nil {
		return err
	}
	if err := os.MkdirAll(config.Dir, 0o755); err != nil { // PostgreSQL's account enters it; secrets are files of mode 0600
		return err
	}
	fmt.Fprintln(config.Out, "Starting. The first time this takes some seconds.")
	config.Brand.Name = cmp.Or(config.Brand.Name, brand.DefaultName)
	d := &demo{config: config}
	defer d.close()
	if err := d.open(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("demo: %w", err)
	}
	if err := d.run(ctx); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	return nil
}

// demo holds all parts, in the order in which they are opened.
type demo struct {
	config    Config
	addresses Addresses
	log       *os.File
	logger    *slog.Logger
	authority *authority.Authority
	keys      *credential.Keyring

	mail                       mailcatcher.Catcher
	smtpListener, mailListener net.Listener
	serviceListener            net.Listener
	privateListener            net.Listener
	partnerListener            net.Listener
	opened                     []net.Listener // all of them

	database  *embedded.Server
	service   *app.App
	partner   *partner.Partner
	partnerDB *sql.DB
	partnerID uuid.UUID
	people    []person
}

func (d *demo) path(name string) string { return filepath.Join(d.config.Dir, name) }

func (d *demo) open(ctx context.Context) (err error) {
	if d.log, err = os.OpenFile(d.path("service.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		return err
	}
	d.logger = telemetry.NewLogger(d.log, slog.LevelInfo)
	if err = d.listen(); err != nil {
		return err
	}
	d.database, err = embedded.Start(ctx, embedded.Config{Dir: d.path("postgres"), Ephemeral: d.config.Ephemeral, Limits: d.config.Limits})
	if err != nil {
		return err
	}
	// From here on no other program uses the directory: the database has a lock.
	if _, err := migrate.Apply(ctx, d.database.URL(), migrate.Up); err != nil {
		return fmt.Errorf("%s: %w", short(d.path("postgres")), err)
	}
	if d.authority, err = authority.Open(d.config.Dir, time.Now()); err != nil {
		return err
	}
	if _, err := os.Stat(d.path("keyset.json")); errors.Is(err, os.ErrNotExist) {
		if err := credential.CreateKeyset(d.path("keyset.json")); err != nil {
			return err
		}
	}
	if d.keys, err = credential.LoadKeyring(d.path("keyset.json")); err != nil {
		return err
	}
	mailer, err := account.NewMailer("smtp://"+d.smtpListener.Addr().String(), (&mail.Address{Name: d.config.Brand.Name, Address: "no-reply@connect.example"}).String())
	if err != nil {
		return err
	}
	token, err := openOperatorToken(d.path("operator-token"))
	if err != nil {
		return err
	}
	holders, err := operators.New(credential.Hash(token), "")
	if err != nil {
		return err
	}
	d.service, err = app.Open(ctx, app.Config{
		Version:         d.config.Version,
		Commit:          d.config.Commit,
		BaseURL:         d.addresses.Service,
		Database:        settings.Database{DatabaseURL: d.database.URL()},
		Keys:            d.keys,
		Listener:        d.serviceListener,
		PrivateListener: d.privateListener,
		Look:            settings.Look{Brand: d.config.Brand, Texts: d.config.Texts},
		Certificate:     listener.FixedCertificate(&d.authority.Server),
		Mailer:          mailer,
		Accounts:        account.Settings{Receipts: true},
		OAuth:           oauth.DefaultSettings,
		Activity:        activity.Settings{CursorLifetime: 15 * time.Minute},
		DevelopersSite:  true,
		PartnerPortal:   true,
		AccountCopy:     true,
		PortalChanges:   portal.Changes{Webhooks: true, Secrets: true},
		Programs:        developers.OwnPrograms(),
		AuthorityFile:   d.authority.File,
		Operators:       holders,
		Limits:          d.config.Limits,
		ConsoleToken:    token,

		Webhooks: webhook.Settings{
			Window:          cmp.Or(d.config.Window, activityWindow),
			AllowedNetworks: loopback, // where the partner is
			RootCAs:         d.authority.Roots,
		},

		Public: func(service http.Handler) http.Handler { return listener.OnlyHosts(nil, service) },
		Logger: d.logger, // codes are not limited, because people try the sign-in repeatedly
	})
	if err != nil {
		return err
	}
	d.addresses.Private = "http://" + d.service.PrivateAddr().String()
	d.addresses.Dir = d.config.Dir
	// The settings that make the command line use the demo's data: `. .connect-svc/environment`.
	environment := fmt.Sprintf("export CONNECT_DATABASE_URL='%s' CONNECT_KEYSET_FILE='%s' CONNECT_WEBHOOK_ALLOW_CIDRS='127.0.0.0/8,::1/128'\n"+
		"# connect-svc webhook test reaches the example partner with SSL_CERT_FILE='%s' before it.\n",
		d.database.URL(), d.path("keyset.json"), d.authority.File)
	if err := os.WriteFile(d.path("environment"), []byte(environment), 0o600); err != nil {
		return err
	}
	return d.seed(ctx)
}

// listen opens the listeners. It runs first, because a port in use is the most likely reason for a failed start.
func (d *demo) listen() error {
	partnerPort := 0
	if d.config.Port != 0 {
		partnerPort = d.config.Port + 1
	}
	for _, l := range []struct {
		listener *net.Listener
		port     int
	}{{&d.serviceListener, d.config.Port}, {&d.partnerListener, partnerPort}, {&d.mailListener, d.config.MailPort}, {&d.privateListener, d.config.ConsolePort}, {&d.smtpListener, 0}} {
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(l.port)))
		if err != nil {
			return fmt.Errorf("port %d cannot be used (%w): is another demo running? --port, --mail-port and --console-port choose others",
				l.port, errors.Unwrap(err))
		}
		*l.listener, d.opened = listener, append(d.opened, listener)
	}
	d.addresses.Service = fmt.Sprint("https://localhost:", portOf(d.serviceListener))
	d.addresses.Partner = fmt.Sprint("https://localhost:", portOf(d.partnerListener))
	// By its number, so that HSTS of localhost, should the service ever send it, does not apply.
	d.addresses.Mail = "http://" + d.mailListener.Addr().String()
	return nil
}

func portOf(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }

// openOperatorToken returns the token of the demo's operator. It is in a file of its own for other programs.
func openOperatorToken(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if token := strings.TrimSpace(string(text)); token != "" {
		return token, nil
	}
	token, _ := credential.NewOperatorToken() // also after an interrupted start: an empty token would admit everyone
	return token, os.WriteFile(path, []byte(token+"\n"), 0o600)
}

// run serves everything until ctx ends or a part fails.
func (d *demo) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	drain := d.config.Limits.OrDefault().Drain
	group.Go(func() error { return d.service.Run(ctx) })
	group.Go(func() error { return d.mail.ServeSMTP(ctx, d.smtpListener, d.logger) })
	group.Go(func() error {
		return listener.ServeLocally(ctx, d.mailListener, nil, d.mail.Handler(), drain, d.logger)
	})
	group.Go(func() error {
		defer d.partner.Wait() // an interrupted refresh costs the connection
		return listener.ServeLocally(ctx, d.partnerListener, &d.authority.Server, d.partner.Handler(), drain, d.logger)
	})
	group.Go(func() error { d.partner.Run(ctx); return nil })
	group.Go(func() error { d.growRegularly(ctx); return nil })
	group.Go(func() error { return d.database.Watch(ctx) })
	fmt.Fprint(d.config.Out, d.screen(ctx))
	if d.config.Started != nil {
		d.config.Started(d.addresses)
	}
	return group.Wait()
}

// close releases what open acquired, the database last.
func (d *demo) close() {
	if d.service != nil {
		d.service.Close()
	}
	for _, l := range d.opened {
		_ = l.Close() // already closed if it was served
	}
	if d.partnerDB != nil {
		_ = d.partnerDB.Close()
	}
	if d.database != nil {
		if err := d.database.Stop(); err != nil {
			d.logger.Error("stop", "cause", err)
		}
	}
	if d.log != nil {
		_ = d.log.Close()
	}
}

func (d *demo) screen(ctx context.Context) string {
	a := d.addresses
	kept := "Everything is deleted when the demo stops."
	if !d.config.Ephemeral {
		kept = "Everything is kept in " + short(a.Dir) + " for the next start;\nits secrets are files that only you can read."
	}
	alex, robin := d.people[0], d.people[1]
	state := alex.name + " is not connected at present."
	if d.partner.Connected(ctx, alex.key) {
		state = alex.name + " is already connected: a month of steps and rides is there to see."
	}
	engineers := "Stride Club's engineers cannot see its pages, as Stride Club is disabled."
	if _, secret, err := d.service.Portal.CreateLink(ctx, portal.NewLink{ClientID: d.partnerID, Valid: portal.MaxValid, Replace: true}); err == nil {
		engineers = "Stride Club's engineers see its refused requests and webhooks. This link opens once:\n" + a.Service + portal.LinkPath(d.partnerID, secret)
	}
	return fmt.Sprintf(`
The demo is running. Ctrl-C stops it.

  Open first    %-35s  an example partner, Stride Club
  Caught mail   %-35s  every email ends up here, with its sign-in code
  Account       %-35s  users see who reads their data, and disconnect
  Developers    %-35s  the site for partners: quick start, guides, reference
  Console       %-35s  the operator's: users, partners, the service; press Sign in
  Health        %-35s  whether the service is ready

%s
To connect someone yourself, choose %s there, then Connect; sign in as %s.

%s

Your browser warns you about the certificate once: it comes from the demo's own
authority, %s. Go on, or trust that file.

To use the commands on the demo's data: . %s
%s
`, a.Partner, a.Mail, a.Service+"/account", a.Service+"/developers/", a.Private+console.Path, a.Private+"/readyz", state, robin.name, robin.email, engineers, short(d.authority.File), short(d.path("environment")), kept)
}

// short returns the path relative to the working directory, if that is shorter.
func short(path string) string {
	here, _ := os.Getwd()
	if relative, err := filepath.Rel(here, path); err == nil && len(relative) < len(path) {
		return relative
	}
	return path
}
