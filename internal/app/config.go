package app

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"connect-svc/internal/admin/operators"
	"connect-svc/internal/admin/portal"
	"connect-svc/internal/app/listener"
	"connect-svc/internal/app/settings"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/edge/developers"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/network"
	"connect-svc/internal/foundation/postgres/clock"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/work"
)

// Config configures the service. A field with the tag `setting` is a setting, which kong reads (see package settings). The settings of a
// domain are in its own struct.
type Config struct {
	BaseURL string `setting:"required" type:"origin" placeholder:"ORIGIN" help:"The issuer: an exact https://host[:port] origin (required)."`
	settings.Database
	settings.Replicas

	Keys               *credential.Keyring `setting:"required" type:"keyset" placeholder:"FILE" name:"keyset-file" help:"The keyset, made by connect-svc keys create (required)."`
	Listen             string              `setting:"" type:"address" default:":8443" help:"The public listener."`
	TLSCert            string              `setting:"" name:"tls-cert" placeholder:"FILE" help:"Certificate chain, PEM. Without it and the key: plain HTTP behind a proxy that terminates TLS."`
	TLSKey             string              `setting:"" name:"tls-key" placeholder:"FILE" help:"The certificate's key, PEM."`
	PrivateListen      string              `setting:"" type:"address" default:"127.0.0.1:9090" help:"The private listener: /healthz, /readyz, /metrics, the operator API and /console."`
	PrivateTLSCert     string              `setting:"" name:"private-tls-cert" placeholder:"FILE" help:"Certificate chain of the private listener, PEM. Without it and the key: plain HTTP."`
	PrivateTLSKey      string              `setting:"" name:"private-tls-key" placeholder:"FILE" help:"That certificate's key, PEM."`
	PrivateHosts       []string            `setting:"" type:"host names" placeholder:"NAME,…" help:"Host names that the private listener answers to, besides IP addresses and localhost; others get 421."`
	ReadyListen        string              `setting:"" type:"address" placeholder:"ADDRESS" help:"A listener of /healthz and /readyz alone, for load balancers. Empty: none."`
	ServerName         string              `setting:"" type:"server name" placeholder:"NAME" help:"This server's name in the console and in alerts, unlike any other's. Empty: its host and the port of the public listener, such as web-1:8443."`
	DrainDelay         time.Duration       `setting:"" type:"0 to 60s" default:"5s" help:"After SIGTERM /readyz is 503 for this long while everything is still served, 0s to 60s."`
	OperatorTokenFile  string              `setting:"" again:"" type:"secret file" placeholder:"FILE" help:"A file with the operator token in it."`
	OperatorToken      []byte              `setting:"" again:"" type:"operator token" placeholder:"TOKEN" help:"Bearer credential of the operator API, 32 characters or more. Without it and named ones that API is off."`
	OperatorTokensFile string              `setting:"" again:"" placeholder:"FILE" help:"Named tokens of the operator API, a line NAME read|write sha256:HEX for each, made by connect-svc operator-token create."`

	DevelopersSite bool                 `setting:"" type:"switch" default:"on" help:"The developers' site under /developers/ of the public listener: on or off."`
	PartnerPortal  bool                 `setting:"" type:"switch" default:"on" help:"Partners' own pages under /partners of the public listener, for those whom the operator gives a link: on or off."`
	PortalChanges  portal.Changes       `setting:"" type:"portal changes" placeholder:"KIND,…" default:"webhooks,secrets" name:"partner-portal-changes" help:"What these people may change by themselves: the webhook's address, and secrets. Empty: nothing."`
	SDKModule      string               `setting:"" type:"module" name:"sdk-module" placeholder:"PATH" help:"Module path of the Go SDK that the site hands out. Empty: the host of the base URL and /connect-go."`
	Programs       *developers.Programs `setting:"" type:"programs" default:"own" placeholder:"own|off|FOLDER" name:"sandbox-programs" help:"The program with which partners run a sandbox, on that site: own is the running one, for its own platform; a folder has the files of a release, for all; off is none."`

	AccountCopy bool `setting:"" type:"switch" default:"off" help:"Users can download a copy of all their data from their account pages: on or off. Off, because these pages show no activity otherwise: whoever reads a user's emails could take years of it."`

	SecurityContact string `setting:"" type:"support page" placeholder:"URL" help:"Where weaknesses of the service are reported, in /.well-known/security.txt of the public listener: https://… or mailto:… Without it the file is missing."`

	LogLevel slog.Level `setting:"" again:"" type:"log level" default:"info" help:"What is logged: debug, info, warn or error. Probes that went well are logged at debug."`

	LimiterURLFile string          `setting:"" type:"secret file" name:"limiter-url-file" placeholder:"FILE" help:"A file with the limiter URL in it."`
	LimiterURL     string          `setting:"" type:"limiter" name:"limiter-url" placeholder:"URL" help:"Redis or Valkey for the shared rate limiter: rediss://user:password@host:6379, or redis:// on this machine. Empty: PostgreSQL."`
	TrustedProxies network.Proxies `setting:"" type:"networks" placeholder:"CIDR,…" help:"Networks of proxies whose X-Forwarded-For is trusted, for the sign-in limits."`
	SMTPURLFile    string          `setting:"" type:"secret file" name:"smtp-url-file" placeholder:"FILE" help:"A file with the mail server's URL in it."`
	SMTPURL        string          `setting:"required" type:"mail server" name:"smtp-url" placeholder:"URL" help:"Mail server for one-time codes: smtp://host:port with STARTTLS, or smtps://user:password@host:port (required)."`
	MailFrom       string          `setting:"required" type:"sender" placeholder:"ADDRESS" help:"Sender of one-time codes (required)."`

	settings.Look

	OAuth          oauth.Settings    `embed:""`
	Activity       activity.Settings `embed:""`
	AuditRetention time.Duration     `setting:"" type:"0 or 1s or more" default:"9600h" help:"How long audit log entries are kept, 1s or more; 0: forever."`
	Webhooks       webhook.Settings  `embed:""`
	Accounts       account.Settings  `embed:""`

	// AfterApply makes these of settings.
	Operators          *operators.Tokens    `kong:"-"` // nil: the operator API and the console are off
	Mailer             *account.Mailer      `kong:"-"`
	Certificate        listener.Certificate `kong:"-"` // of the public listener; nil: plain HTTP behind a proxy that terminates TLS
	PrivateCertificate listener.Certificate `kong:"-"` // of the private listener; nil: plain HTTP

	// The program sets these.
	Version, Commit string            `kong:"-"` // in the log's first line and in connect_build_info
	Memory          int64             `kong:"-"` // bytes that the process may use; 0: unknown
	ReadOnly        bool              `kong:"-"` // operators see the database; nothing else is served, and nothing is changed or sent
	Logger          *slog.Logger      `kong:"-"`
	Traces          *telemetry.Traces `kong:"-"` // nil: none

	// The rest is for programs that extend the service, such as the sandbox, and for tests. Public and Private wrap the handlers of the
	// listeners; nil: no wrapper. Listener and PrivateListener are open listeners, instead of addresses; the App closes them.
	Listener, PrivateListener net.Listener                    `kong:"-"`
	Public, Private           func(http.Handler) http.Handler `kong:"-"`
	Random                    io.Reader                       `kong:"-"` // source of the ids and secrets of clients, webhooks and grants, used concurrently; nil: crypto/rand
	AuthorityFile             string                          `kong:"-"` // of the public listener's certificate, which the developers' site tells to trust; empty: everybody trusts it
	ConsoleToken              string                          `kong:"-"` // fills the console's sign-in form, on a developer's machine
	Observe                   func(*telemetry.Event)          `kong:"-"` // gets each finished request of the public listener; it must not block
	Limits                    work.Limits                     `kong:"-"` // the zero value is work.DefaultLimits
	Clock                     *clock.Clock                    `kong:"-"` // nil: the real time
}

// Server returns the name of this server among the servers on the database: the setting, or its host with the port of the public listener.
func (c Config) Server() string {
	if c.ServerName != "" {
		return c.ServerName
	}
	host, _ := os.Hostname() // "" with an error
	host = cmp.Or(host, "unknown")
	address := c.Listen
	if c.Listener != nil {
		address = c.Listener.Addr().String()
	}
	if _, port, err := net.SplitHostPort(address); err == nil && port != "0" { // which is any free one
		return net.JoinHostPort(host, port)
	}
	return host
}

// AfterApply is called by kong. It makes what takes several settings, and checks the settings that only make sense together.
func (c *Config) AfterApply(source *settings.Source) error {
	note := func(err error) {
		if err != nil {
			source.Problems = append(source.Problems, err)
		}
	}
	listeners := []struct{ flag, address string }{{"listen", c.Listen}, {"private-listen", c.PrivateListen}, {"ready-listen", c.ReadyListen}}
	for i, listener := range listeners {
		for _, other := range listeners[:i] {
			if settings.Collide(listener.address, other.address) {
				note(settings.Refuse(listener.flag, fmt.Sprintf("%q is taken by %s", listener.address, settings.Variable(other.flag)),
					"an address that no other listener has"))
			}
		}
	}
	var err error
	c.Operators, err = settings.ReadOperators(c.OperatorToken, c.OperatorTokensFile)
	note(err)
	c.Certificate, err = settings.ReadCertificate("tls", c.TLSCert, c.TLSKey)
	note(err)
	c.PrivateCertificate, err = settings.ReadCertificate("private-tls", c.PrivateTLSCert, c.PrivateTLSKey)
	note(err)
	if c.SMTPURL != "" && c.MailFrom != "" { // otherwise the problem was reported
		c.Mailer, err = account.NewMailer(c.SMTPURL, c.MailFrom)
		note(err)
	}
	return nil
}
