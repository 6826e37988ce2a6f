package main

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"connect-svc/internal/app"
	"connect-svc/internal/oauth"
	"connect-svc/internal/telemetry"
)

// serveCommand is the service's settings. They are texts here: config checks them all before anything is started.
type serveCommand struct {
	BaseURL string `setting:"" placeholder:"ORIGIN" help:"The issuer: an exact https://host[:port] origin (required)."`
	databaseSetting
	DatabaseReadURL string `setting:"" placeholder:"URL" help:"Streaming replicas for reads of activity: postgres://user:password@host,host/name. Empty: the primary."`

	KeysetFile    string `setting:"" placeholder:"FILE" help:"The keyset, made by connect-svc keys create (required)."`
	Listen        string `setting:"" default:":8443" help:"The public listener."`
	TLSCert       string `setting:"" name:"tls-cert" placeholder:"FILE" help:"Certificate chain, PEM. Without it and the key: plain HTTP behind a proxy that ends TLS."`
	TLSKey        string `setting:"" name:"tls-key" placeholder:"FILE" help:"The certificate's key, PEM."`
	PrivateListen string `setting:"" default:"127.0.0.1:9090" help:"The private listener: /healthz, /readyz, /metrics, /usage and the operator API."`
	OperatorToken string `setting:"" placeholder:"TOKEN" help:"Bearer credential of the operator API, 32 characters or more. Without it that API is off."`

	DevelopersSite string `setting:"" default:"on" help:"The developers' site under /developers/ of the public listener: on or off."`

	LimiterURL     string `setting:"" name:"limiter-url" placeholder:"URL" help:"Redis or Valkey for the shared rate limiter: redis://host:6379. Empty: PostgreSQL."`
	TrustedProxies string `setting:"" placeholder:"CIDR,…" help:"Networks of proxies whose X-Forwarded-For is believed, for the sign-in limits."`
	SMTPURL        string `setting:"" name:"smtp-url" placeholder:"URL" help:"Mail server for one-time codes: smtp://host:port or smtps://user:password@host:port (required)."`
	MailFrom       string `setting:"" placeholder:"ADDRESS" help:"Sender of one-time codes (required)."`

	AccessTokenLifetime string `setting:"" default:"300s" help:"Life of an access token, 1s to 300s."`
	CodeLifetime        string `setting:"" default:"120s" help:"Life of an authorization code, 1s to 120s."`
	RequestLifetime     string `setting:"" default:"10m" help:"Time for sign-in and consent, 1s to 10m."`
	CursorLifetime      string `setting:"" default:"15m" help:"Time for reading all pages of one query, 1s to 15m."`
	RefreshInactivity   string `setting:"" default:"2160h" help:"A connection lapses when it was not refreshed for so long, 1s or more."`

	ActivityUpdatedWindow string `setting:"" default:"60s" help:"Time in which changes of a connection's activity are merged to one activity.updated, 1s to 1h."`
	WebhookAllowCIDRs     string `setting:"" name:"webhook-allow-cidrs" placeholder:"CIDR,…" help:"Private or loopback networks that webhooks may reach. For development only."`

	SignInCodesPerEmail   string `setting:"" default:"5" help:"One-time codes sent to one address an hour; 0 is no limit."`
	SignInCodesPerNetwork string `setting:"" default:"30" help:"One-time codes asked for from one network address an hour; 0 is no limit."`
}

// config checks every setting. The error names the first one that cannot be, what was wrong and what is accepted.
func (s serveCommand) config() (app.Config, error) {
	var c checks
	config := app.Config{
		BaseURL:        check(&c, "base-url", s.BaseURL, origin),
		DatabaseURL:    check(&c, "database-url", s.DatabaseURL, databaseURL),
		ReadURL:        optional(&c, "database-read-url", s.DatabaseReadURL, replicaURL),
		Keys:           check(&c, "keyset-file", s.KeysetFile, keysetFile),
		Listen:         check(&c, "listen", s.Listen, listenAddress),
		Certificate:    certificate(&c, s.TLSCert, s.TLSKey),
		PrivateListen:  check(&c, "private-listen", s.PrivateListen, listenAddress),
		OperatorHash:   optional(&c, "operator-token", s.OperatorToken, operatorToken),
		DevelopersSite: check(&c, "developers-site", s.DevelopersSite, onOff),
		TrustedProxies: optional(&c, "trusted-proxies", s.TrustedProxies, networks),
		LimiterURL:     optional(&c, "limiter-url", s.LimiterURL, limiterURL),
		Mailer:         mailer(&c, s.SMTPURL, s.MailFrom),
		OAuth: oauth.Settings{
			AccessTokenLifetime: check(&c, "access-token-lifetime", s.AccessTokenLifetime, duration(time.Second, 300*time.Second)),
			CodeLifetime:        check(&c, "code-lifetime", s.CodeLifetime, duration(time.Second, 120*time.Second)),
			RequestLifetime:     check(&c, "request-lifetime", s.RequestLifetime, duration(time.Second, 10*time.Minute)),
			RefreshInactivity:   check(&c, "refresh-inactivity", s.RefreshInactivity, duration(time.Second, 0)),
		},
		CursorLifetime:        check(&c, "cursor-lifetime", s.CursorLifetime, duration(time.Second, 15*time.Minute)),
		ActivityUpdatedWindow: check(&c, "activity-updated-window", s.ActivityUpdatedWindow, duration(time.Second, time.Hour)),
		WebhookNetworks:       optional(&c, "webhook-allow-cidrs", s.WebhookAllowCIDRs, networks),

		CodesPerEmail:   check(&c, "sign-in-codes-per-email", s.SignInCodesPerEmail, perHour),
		CodesPerNetwork: check(&c, "sign-in-codes-per-network", s.SignInCodesPerNetwork, perHour),
	}
	return config, c.first
}

func (s serveCommand) Run(p *program, command *kong.Context) error {
	config, err := s.config()
	if err != nil {
		return err
	}
	logger, flush := telemetry.NewGatheringLogger(p.stderr, slog.LevelInfo)
	defer flush()
	config.Logger = logger
	warnOfUnknown(config.Logger, p.environ, command)
	if config.Traces, err = telemetry.NewTraces(p.ctx, config.Logger); err != nil {
		return usageError{err}
	}
	defer stopTraces(config.Traces)
	service, err := app.Open(p.ctx, config)
	if err != nil {
		return err
	}
	return service.Run(p.ctx)
}

// stopTraces is what is left of the fifteen seconds that stopping may take.
func stopTraces(traces *telemetry.Traces) {
	ctx, cancel := context.WithTimeout(context.Background(), 800*time.Millisecond)
	defer cancel()
	traces.Stop(ctx)
}

// warnOfUnknown tells of variables that look like settings and are none: a misspelt setting would else be silence.
func warnOfUnknown(logger *slog.Logger, environ []string, command *kong.Context) {
	var known []string
	for _, flag := range command.Flags() {
		known = append(known, variable(flag.Name))
	}
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "CONNECT_") && !slices.Contains(known, name) {
			logger.Warn("not a setting of this program", "variable", name)
		}
	}
}
