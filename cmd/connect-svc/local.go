package main

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/app/settings"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/local/demo"
	"connect-svc/internal/local/sandbox"
	"github.com/google/uuid"
)

type demoCommand struct {
	Dir         string `default:".connect-svc" placeholder:"DIR" help:"Directory that keeps the data for the next start (default ${default})."`
	Ephemeral   bool   `help:"Delete everything on exit."`
	Port        int    `default:"8443" placeholder:"N" help:"Port of the service; the example partner uses the next one (default ${default}; 0 picks free ones)."`
	MailPort    int    `default:"8445" placeholder:"N" help:"Port of the caught mail (default ${default}; 0 picks a free one)."`
	ConsolePort int    `default:"8446" placeholder:"N" help:"Port of the console and the operator API (default ${default}; 0 picks a free one)."`
	settings.Look
}

func (c demoCommand) Run(p *program) error {
	for flag, port := range map[string]int{"port": c.Port, "mail-port": c.MailPort, "console-port": c.ConsolePort} {
		if port < 0 || port > 65534 {
			return usagef("--%s: must be from 0 to 65534", flag)
		}
	}
	build := built()
	return demo.Run(p.ctx, demo.Config{
		Version:     build.Version,
		Commit:      build.Commit,
		Dir:         c.Dir,
		Ephemeral:   c.Ephemeral,
		Port:        c.Port,
		MailPort:    c.MailPort,
		ConsolePort: c.ConsolePort,
		Brand:       c.Brand,
		Texts:       c.Texts,
		Out:         p.stdout,
	})
}

type sandboxCommand struct {
	output
	Listen        string   `default:"127.0.0.1:8443" placeholder:"ADDRESS" help:"Address of the partner API, on 127.0.0.1, ::1 or localhost (default ${default}; port 0 picks a free one)."`
	PrivateListen string   `default:"127.0.0.1:9090" placeholder:"ADDRESS" help:"Address of the driver and of the private listener's other pages (default ${default}; port 0 picks a free one)."`
	Callback      string   `default:"https://partner.example/callback" placeholder:"URL" help:"The client's callback URL, which is never called (default ${default})."`
	Client        []string `sep:"none" placeholder:"NAME=URL" help:"Register a further client with a name and a callback URL; repeat the flag for each."`
	WebhookURL    string   `name:"webhook-url" xor:"webhooks" placeholder:"URL" help:"URL that receives webhooks, also http:// on this machine (default: a built-in receiver)."`
	Forward       string   `xor:"webhooks" placeholder:"URL" help:"The same, and print each delivery with the status of its answer."`
	Seed          *uint64  `placeholder:"N" help:"Make the same ids, secrets and data each time (default: random)."`
	Now           instant  `placeholder:"TIME" help:"When its clock begins: YYYY-MM-DD (UTC) or RFC 3339 (default: now)."`
	DriverToken   string   `setting:"" placeholder:"TOKEN" help:"Bearer token that the driver asks for, 16 characters or more. With it both addresses may be 0.0.0.0."`
	Host          []string `setting:"" sep:"none" placeholder:"NAME" help:"Name besides localhost by which the sandbox is reached, such as that of its container; repeat the flag for each."`
	CAFile        string   `name:"ca-file" placeholder:"FILE" help:"File to write the certificate authority to trust to (default: a temporary file)."`
}

func (c sandboxCommand) Run(p *program) error {
	if c.DriverToken != "" && !driverToken.MatchString(c.DriverToken) {
		return usagef("--driver-token: must be 16 to 256 letters, digits, or any of - . _ ~ + / =")
	}
	c.Host = slices.DeleteFunc(c.Host, func(name string) bool { return name == "" }) // a variable that is not set
	for _, name := range c.Host {
		if !settings.IsHostName(name) {
			return usagef("--host: must be a name in lower case, such as sandbox or sandbox.test")
		}
	}
	if c.Now.After(time.Now().AddDate(10, 0, 0)) || !c.Now.IsZero() && c.Now.Year() < 2000 {
		return usagef("--now: must be in the years from 2000 to ten years ahead")
	}
	for flag, address := range map[string]string{"listen": c.Listen, "private-listen": c.PrivateListen} {
		host, _, _ := net.SplitHostPort(address)
		everywhere := host == "0.0.0.0" || host == "::"
		switch {
		case !settings.IsAddress(address), !everywhere && !slices.Contains(loopback, host):
			return usagef("--%s: must be 127.0.0.1, [::1] or localhost with a port, such as 127.0.0.1:8443", flag)
		case everywhere && c.DriverToken == "":
			return usagef("--%s: 0.0.0.0 needs a --driver-token", flag)
		}
	}
	if err := client.ValidateCallback(c.Callback); err != nil {
		return usagef("--callback: %w", err)
	}
	for flag, url := range map[string]string{"webhook-url": c.WebhookURL, "forward": c.Forward} {
		if err := sandbox.CheckReceiver(url); err != nil && url != "" {
			return usagef("--%s: %w", flag, err)
		}
	}
	clients := make([]sandbox.Client, len(c.Client))
	for i, text := range c.Client {
		name, callback, ok := strings.Cut(text, "=")
		if err := client.ValidateCallback(callback); !ok || err != nil {
			return usagef("--client: must be a name, = and a callback URL, such as Stride=https://stride.example/callback")
		}
		clients[i] = sandbox.Client{Name: name, CallbackURL: callback}
	}
	var sent func(sandboxapi.Webhook, sandboxapi.Try)
	if c.Forward != "" {
		sent = c.printDelivery(p)
	}
	build := built()
	return sandbox.Run(p.ctx, sandbox.Config{
		Version:       build.Version,
		Commit:        build.Commit,
		Listen:        c.Listen,
		PrivateListen: c.PrivateListen,
		CallbackURL:   c.Callback,
		Clients:       clients,
		WebhookURL:    cmp.Or(c.WebhookURL, c.Forward),
		Sent:          sent,
		CAFile:        c.CAFile,
		Seed:          c.Seed,
		Now:           c.Now.Time,
		DriverToken:   c.DriverToken,
		Hosts:         c.Host,
		Logger:        telemetry.NewLogger(p.stderr, slog.LevelWarn),
		Ready:         func(s sandboxapi.Sandbox) error { return c.ready(p, s) },
	})
}

var driverToken = regexp.MustCompile(`^[A-Za-z0-9._~+/=-]{16,256}$`)

// loopback are the hosts that the sandbox's certificate is for.
var loopback = []string{"127.0.0.1", "::1", "localhost"}

// ready prints where everything is.
func (c sandboxCommand) ready(p *program, s sandboxapi.Sandbox) error {
	return c.print(p, s, func(w io.Writer) {
		fmt.Fprintf(w, "The sandbox is running. Ctrl-C stops it and deletes everything.\n\n  The partner API\t%s\n  Certificate to trust\t%s\n"+
			"  The driver\t%s/sandbox\n  Caught mail\t%s\n", s.BaseUrl, s.CaFile, s.DriverUrl, s.MailUrl)
		for _, partner := range s.Clients {
			if len(s.Clients) > 1 {
				fmt.Fprintf(w, "  Client\t%s\n", partner.Name)
			}
			fmt.Fprintf(w, "  Client ID\t%s\n  Client secret\t%s\n  Callback\t%s\n  Webhooks go to\t%s\n  Their secret\t%s\n",
				partner.ClientId, partner.ClientSecret, partner.CallbackUrl, partner.WebhookUrl, partner.WebhookSecret)
		}
		for _, user := range s.Users {
			fmt.Fprintf(w, "  User, %s\t%s  %s\n", user.Kind, user.UserId, user.Timezone)
		}
		fmt.Fprintf(w, "\nHow to use it: %s/developers/sandbox.html\n", s.BaseUrl)
	})
}

// printDelivery prints a line for each attempt to send a webhook: to standard output for people, to standard error for programs, which
// expect one object.
func (c sandboxCommand) printDelivery(p *program) func(sandboxapi.Webhook, sandboxapi.Try) {
	out := p.stdout
	if c.Output == "json" {
		out = p.stderr
	}
	var printing sync.Mutex
	return func(sent sandboxapi.Webhook, try sandboxapi.Try) {
		answer := "no answer"
		if try.Status != nil {
			answer = fmt.Sprintf("%d %s", *try.Status, http.StatusText(*try.Status))
		}
		printing.Lock()
		defer printing.Unlock()
		fmt.Fprintf(out, "%s  %s  %s  %s\n", try.At, sent.Type, sent.Id, answer)
	}
}

type sampleDataCommand struct {
	output
	databaseSetting
	User userOrEmail `required:"" placeholder:"UUID|EMAIL" help:"The user's id or e-mail address."`
	Days int         `required:"" placeholder:"N" help:"Number of days up to and including today, 1 to 3650."`
	Seed uint64      `default:"1" placeholder:"N" help:"Random seed; the same seed generates the same activity (default ${default})."`
}

type sampleDataJSON struct {
	UserID            uuid.UUID  `json:"user_id"`
	DailySteps        importJSON `json:"daily_steps"`
	CyclingActivities importJSON `json:"cycling_activities"`
}

func (c sampleDataCommand) AfterApply() error {
	if c.Days < 1 || c.Days > 3650 {
		return usagef("--days: must be from 1 to 3650")
	}
	return nil
}

func (c sampleDataCommand) Run(p *program, api *operatorAPI) error {
	user, err := c.User.read(p, api)
	if err != nil {
		return err
	}
	result, err := api.activity.SampleData(p.ctx, user.UserId, c.Days, c.Seed)
	if err != nil {
		return err
	}
	value := sampleDataJSON{user.UserId, importJSON(result.DailySteps), importJSON(result.CyclingActivities)}
	return c.print(p, value, func(w io.Writer) {
		fmt.Fprintf(w, "daily steps\t%d days\ncycling activities\t%d rides\n", result.DailySteps.Rows, result.CyclingActivities.Rows)
	})
}
