package settings

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"time"

	"connect-svc/internal/admin/portal"
	"connect-svc/internal/app"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/edge/developers"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/locale"
)

// Service is the table of the service's settings.
type Service struct {
	Config app.Config `kong:"-"` // what they say, without the program's version

	BaseURL string `setting:"required" type:"origin" placeholder:"ORIGIN" help:"The issuer: an exact https://host[:port] origin (required)."`
	Database
	Replicas

	KeysetFile         *credential.Keyring `setting:"required" type:"keyset" placeholder:"FILE" help:"The keyset, made by connect-svc keys create (required)."`
	Listen             string              `setting:"" type:"address" default:":8443" help:"The public listener."`
	TLSCert            string              `setting:"" name:"tls-cert" placeholder:"FILE" help:"Certificate chain, PEM. Without it and the key: plain HTTP behind a proxy that terminates TLS."`
	TLSKey             string              `setting:"" name:"tls-key" placeholder:"FILE" help:"The certificate's key, PEM."`
	PrivateListen      string              `setting:"" type:"address" default:"127.0.0.1:9090" help:"The private listener: /healthz, /readyz, /metrics, the operator API and /console."`
	PrivateTLSCert     string              `setting:"" name:"private-tls-cert" placeholder:"FILE" help:"Certificate chain of the private listener, PEM. Without it and the key: plain HTTP."`
	PrivateTLSKey      string              `setting:"" name:"private-tls-key" placeholder:"FILE" help:"That certificate's key, PEM."`
	PrivateHosts       []string            `setting:"" type:"host names" placeholder:"NAME,…" help:"Host names that the private listener answers to, besides IP addresses and localhost; others get 421."`
	ReadyListen        string              `setting:"" type:"address" placeholder:"ADDRESS" help:"A listener of /healthz and /readyz alone, for load balancers. Empty: none."`
	DrainDelay         time.Duration       `setting:"" type:"0 to 60s" default:"5s" help:"After SIGTERM /readyz is 503 for this long while everything is still served, 0s to 60s."`
	OperatorTokenFile  string              `setting:"" again:"" type:"secret file" placeholder:"FILE" help:"A file with the operator token in it."`
	OperatorToken      []byte              `setting:"" again:"" type:"operator token" placeholder:"TOKEN" help:"Bearer credential of the operator API, 32 characters or more. Without it and named ones that API is off."`
	OperatorTokensFile string              `setting:"" again:"" placeholder:"FILE" help:"Named tokens of the operator API, a line NAME read|write sha256:HEX for each, made by connect-svc operator-token create."`

	DevelopersSite       bool           `setting:"" type:"switch" default:"on" help:"The developers' site under /developers/ of the public listener: on or off."`
	Receipts             bool           `setting:"" type:"switch" default:"on" help:"Emails to users about new and ended connections, and about sign-ins from browsers that are not known: on or off."`
	PartnerPortal        bool           `setting:"" type:"switch" default:"on" help:"Partners' own pages under /partners of the public listener, for those whom the operator gives a link: on or off."`
	PartnerPortalChanges portal.Changes `setting:"" type:"portal changes" placeholder:"KIND,…" default:"webhooks,secrets" help:"What these people may change by themselves: the webhook's address, and secrets. Empty: nothing."`
	SDKModule            string         `setting:"" type:"module" name:"sdk-module" placeholder:"PATH" help:"Module path of the Go SDK that the site hands out. Empty: the host of the base URL and /connect-go."`

	SandboxPrograms *developers.Programs `setting:"" type:"programs" default:"own" placeholder:"own|off|FOLDER" help:"The program with which partners run a sandbox, on that site: own is the running one, for its own platform; a folder has the files of a release, for all; off is none."`

	LogLevel slog.Level `setting:"" again:"" type:"log level" default:"info" help:"What is logged: debug, info, warn or error. Probes that went well are logged at debug."`

	LimiterURLFile string         `setting:"" type:"secret file" name:"limiter-url-file" placeholder:"FILE" help:"A file with the limiter URL in it."`
	LimiterURL     string         `setting:"" type:"limiter" name:"limiter-url" placeholder:"URL" help:"Redis or Valkey for the shared rate limiter: rediss://user:password@host:6379, or redis:// on this machine. Empty: PostgreSQL."`
	TrustedProxies []netip.Prefix `setting:"" type:"networks" placeholder:"CIDR,…" help:"Networks of proxies whose X-Forwarded-For is trusted, for the sign-in limits."`
	SMTPURLFile    string         `setting:"" type:"secret file" name:"smtp-url-file" placeholder:"FILE" help:"A file with the mail server's URL in it."`
	SMTPURL        string         `setting:"required" type:"mail server" name:"smtp-url" placeholder:"URL" help:"Mail server for one-time codes: smtp://host:port with STARTTLS, or smtps://user:password@host:port (required)."`
	MailFrom       string         `setting:"required" type:"sender" placeholder:"ADDRESS" help:"Sender of one-time codes (required)."`

	Brand

	AccessTokenLifetime time.Duration `setting:"" type:"1s to 5m" default:"300s" help:"Lifetime of an access token, 1s to 300s."`
	CodeLifetime        time.Duration `setting:"" type:"1s to 2m" default:"120s" help:"Lifetime of an authorization code, 1s to 120s."`
	RequestLifetime     time.Duration `setting:"" type:"1s to 10m" default:"10m" help:"Time allowed for sign-in and consent, 1s to 10m."`
	CursorLifetime      time.Duration `setting:"" type:"1s to 15m" default:"15m" help:"Time allowed for reading all pages of one query, 1s to 15m."`
	RefreshInactivity   time.Duration `setting:"" type:"1s or more" default:"2160h" help:"A connection lapses when it has not been refreshed for this long, 1s or more."`

	AuditRetention time.Duration `setting:"" type:"0 or 1s or more" default:"9600h" help:"How long audit log entries are kept, 1s or more; 0: forever."`

	ActivityUpdatedWindow time.Duration  `setting:"" type:"1s to 1h" default:"60s" help:"Changes within this time are merged into one activity.updated per connection, 1s to 1h."`
	WebhookAllowCIDRs     []netip.Prefix `setting:"" type:"networks" name:"webhook-allow-cidrs" placeholder:"CIDR,…" help:"Private or loopback networks that webhooks may reach. For development only."`

	SignInCodesPerEmail   int `setting:"" type:"hourly limit" default:"5" help:"Emails with a one-time code sent to one address per hour, and four times as many per day; 0: no limit."`
	SignInCodesPerNetwork int `setting:"" type:"hourly limit" default:"30" help:"One-time codes requested from one network address per hour; 0: no limit."`
}

// AfterApply is called by kong. It makes the configuration, and checks the settings that only make sense together.
func (s *Service) AfterApply(from *Source) error {
	s.Config = app.Config{
		BaseURL:        s.BaseURL,
		DatabaseURL:    s.DatabaseURL,
		ReadURL:        s.DatabaseReadURL,
		Keys:           s.KeysetFile,
		Listen:         s.Listen,
		PrivateListen:  s.PrivateListen,
		PrivateHosts:   s.PrivateHosts,
		ReadyListen:    s.ReadyListen,
		DrainDelay:     s.DrainDelay,
		Brand:          s.Look(),
		Texts:          s.TextsDir,
		DevelopersSite: s.DevelopersSite,
		PartnerPortal:  s.PartnerPortal,
		Receipts:       s.Receipts,
		PortalChanges:  s.PartnerPortalChanges,
		SDKModule:      s.SDKModule,
		Programs:       s.SandboxPrograms,
		TrustedProxies: s.TrustedProxies,
		LimiterURL:     s.LimiterURL,
		OAuth: oauth.Settings{
			AccessTokenLifetime: s.AccessTokenLifetime,
			CodeLifetime:        s.CodeLifetime,
			RequestLifetime:     s.RequestLifetime,
			RefreshInactivity:   s.RefreshInactivity,
		},
		CursorLifetime:        s.CursorLifetime,
		AuditRetention:        s.AuditRetention,
		ActivityUpdatedWindow: s.ActivityUpdatedWindow,
		WebhookNetworks:       s.WebhookAllowCIDRs,
		CodesPerEmail:         s.SignInCodesPerEmail,
		CodesPerNetwork:       s.SignInCodesPerNetwork,
	}
	note := func(err error) {
		if err != nil {
			from.Problems = append(from.Problems, err)
		}
	}
	listeners := []struct{ flag, address string }{{"listen", s.Listen}, {"private-listen", s.PrivateListen}, {"ready-listen", s.ReadyListen}}
	for i, one := range listeners {
		for _, other := range listeners[:i] {
			if collide(one.address, other.address) {
				note(Error{one.flag, fmt.Sprintf("%q is taken by %s", one.address, Variable(other.flag)), "an address that no other listener has"})
			}
		}
	}
	var err error
	s.Config.Operators, err = ReadOperators(s.OperatorToken, s.OperatorTokensFile)
	note(err)
	s.Config.Certificate, err = readCertificate("tls", s.TLSCert, s.TLSKey)
	note(err)
	s.Config.PrivateCertificate, err = readCertificate("private-tls", s.PrivateTLSCert, s.PrivateTLSKey)
	note(err)
	if s.SMTPURL != "" && s.MailFrom != "" { // otherwise the problem was reported
		s.Config.Mailer, err = account.NewMailer(s.SMTPURL, s.MailFrom)
		note(err)
	}
	return nil
}

// Database is the setting of every command that works on the database.
type Database struct {
	DatabaseURLFile string `setting:"" type:"secret file" name:"database-url-file" placeholder:"FILE" help:"A file with the database URL in it."`
	DatabaseURL     string `setting:"required" type:"database" placeholder:"URL" help:"PostgreSQL 15 or newer (15 to 18 are tested): postgres://user:password@host:port/name (required)."`
}

// Replicas is the setting of the read replicas.
type Replicas struct {
	DatabaseReadURLFile string `setting:"" type:"secret file" name:"database-read-url-file" placeholder:"FILE" help:"A file with that URL in it."`
	DatabaseReadURL     string `setting:"" type:"replicas" placeholder:"URL" help:"Streaming replicas that may answer activity reads: postgres://user:password@host,host/name. Empty: the primary."`
}

// Keyset is the setting of the commands that seal or open the signing secrets of webhooks.
type Keyset struct {
	KeysetFile *credential.Keyring `setting:"required" type:"keyset" placeholder:"FILE" help:"The service's keyset, which seals secrets and hashes addresses."`
}

// Ring returns the keyset.
func (s Keyset) Ring() *credential.Keyring { return s.KeysetFile }

// OptionalKeyset is that of the commands that may have to.
type OptionalKeyset struct {
	KeysetFile *credential.Keyring `setting:"" type:"keyset" placeholder:"FILE" help:"The service's keyset, which seals webhook signing secrets."`
}

// Ring returns the keyset, nil if there is none.
func (s OptionalKeyset) Ring() *credential.Keyring { return s.KeysetFile }

// OptionalMailServer is that of the commands that write addresses of users.
type OptionalMailServer struct {
	SMTPURLFile string `setting:"" type:"secret file" name:"smtp-url-file" placeholder:"FILE" help:"A file with the mail server's URL in it."`
	SMTPURL     string `setting:"" type:"mail server" name:"smtp-url" placeholder:"URL" help:"The service's mail server, which is asked whether it offers SMTPUTF8 if an address is not ASCII before the @."`
}

// Mailer returns the mail server, nil if there is none.
func (s OptionalMailServer) Mailer() *account.Mailer {
	mailer, err := account.NewMailer(s.SMTPURL, anySender)
	if err != nil { // there is no URL, or its problem was reported
		return nil
	}
	return mailer
}

// OnlyIf drops the keyset if it is not needed, and reports that it is missing if it is.
func (s *OptionalKeyset) OnlyIf(needed bool, from *Source) {
	switch {
	case !needed:
		s.KeysetFile = nil
	case s.KeysetFile == nil && !from.Refused("keyset-file"):
		from.Problems = append(from.Problems, Error{"keyset-file", "is not set", types["keyset"].accepted})
	}
}

// Brand has the settings of how the pages and emails look to users.
type Brand struct {
	BrandName       string            `setting:"" again:"" type:"brand name" default:"Activity Connect" placeholder:"NAME" help:"The name that users see on pages and in emails."`
	BrandLogo       brand.Logo        `setting:"" again:"" type:"logo" placeholder:"FILE" help:"Logo on pages, SVG or PNG. Empty: the built-in mark."`
	BrandLogoDark   brand.Logo        `setting:"" again:"" type:"logo" placeholder:"FILE" help:"Logo on dark pages. Empty: the same logo."`
	BrandIcon       brand.Logo        `setting:"" again:"" type:"icon" placeholder:"FILE" help:"Square icon on the consent page and in emails, PNG. Empty: a logo that fits, or the first letter of the name."`
	BrandColor      brand.Color       `setting:"" again:"" type:"color" placeholder:"#RRGGBB" help:"Color of buttons, from which that of links and backgrounds is made. Empty: green."`
	BrandSupportURL string            `setting:"" again:"" type:"support page" name:"brand-support-url" placeholder:"URL" help:"Where users get help: https://… or mailto:…"`
	BrandPrivacyURL string            `setting:"" again:"" type:"page" name:"brand-privacy-url" placeholder:"URL" help:"The operator's privacy policy."`
	TextsDir        *locale.Catalogue `setting:"" again:"" type:"texts" placeholder:"FOLDER" help:"Folder of files such as de.toml, whose texts replace the built-in ones, and add languages to the pages, the emails and the console."`
}

// Look is what the settings say.
func (s Brand) Look() brand.Brand {
	return brand.Brand{
		Name: s.BrandName, Logo: s.BrandLogo, LogoDark: s.BrandLogoDark, Icon: s.BrandIcon, Color: s.BrandColor,
		SupportURL: s.BrandSupportURL, PrivacyURL: s.BrandPrivacyURL,
	}
}

// ReadLogo reads a file that holds a logo, and returns its content, too.
func ReadLogo(name string) (content []byte, logo brand.Logo, err error) {
	if content, err = os.ReadFile(name); err != nil {
		return nil, logo, errors.New("is not a file that can be read")
	}
	logo, err = brand.ReadLogo(content)
	return content, logo, err
}
