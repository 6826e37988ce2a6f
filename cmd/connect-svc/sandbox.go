package main

import (
	"fmt"
	"io"
	"log/slog"
	"net"

	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/client"
	"connect-svc/internal/local/sandbox"
	"connect-svc/internal/telemetry"
	"connect-svc/internal/webhook"
)

type sandboxCommand struct {
	output
	Listen        string `default:"127.0.0.1:8443" placeholder:"ADDRESS" help:"Address of the partner API, on 127.0.0.1, ::1 or localhost (default ${default}; port 0 picks a free one)."`
	PrivateListen string `default:"127.0.0.1:9090" placeholder:"ADDRESS" help:"Address of the driver and of the private listener's other pages (default ${default}; port 0 picks a free one)."`
	Callback      string `default:"https://partner.example/callback" placeholder:"URL" help:"The client's callback URL, which is never called (default ${default})."`
	WebhookURL    string `name:"webhook-url" placeholder:"URL" help:"URL that receives webhooks (default: a built-in receiver)."`
	CAFile        string `name:"ca-file" placeholder:"FILE" help:"File to write the certificate authority to trust to (default: a temporary file)."`
}

func (c sandboxCommand) Run(p *program) error {
	for flag, address := range map[string]string{"listen": c.Listen, "private-listen": c.PrivateListen} {
		if !isLoopback(address) {
			return usagef("--%s: must be 127.0.0.1, [::1] or localhost with a port, such as 127.0.0.1:8443", flag)
		}
	}
	if err := client.ValidateCallback(c.Callback); err != nil {
		return usagef("--callback: %w", err)
	}
	if c.WebhookURL != "" {
		if err := webhook.ValidateURL(c.WebhookURL); err != nil {
			return usagef("--webhook-url: %w", err)
		}
	}
	return sandbox.Run(p.ctx, sandbox.Config{
		Listen:        c.Listen,
		PrivateListen: c.PrivateListen,
		CallbackURL:   c.Callback,
		WebhookURL:    c.WebhookURL,
		CAFile:        c.CAFile,
		Logger:        telemetry.NewLogger(p.stderr, slog.LevelWarn),
		Ready:         func(s sandboxapi.Sandbox) error { return c.ready(p, s) },
	})
}

// isLoopback tells whether address is a port of one of the hosts that the sandbox's certificate is for.
func isLoopback(address string) bool {
	host, port, err := net.SplitHostPort(address)
	return err == nil && isPort(port, 0) && (host == "127.0.0.1" || host == "::1" || host == "localhost")
}

// ready prints where everything is.
func (c sandboxCommand) ready(p *program, s sandboxapi.Sandbox) error {
	return c.print(p, s, func(w io.Writer) {
		fmt.Fprintf(w, "The sandbox is running. Ctrl-C stops it and deletes everything.\n\n")
		fmt.Fprintf(w, "  The partner API\t%s\n", s.BaseUrl)
		fmt.Fprintf(w, "  Certificate to trust\t%s\n", s.CaFile)
		fmt.Fprintf(w, "  The driver\t%s/sandbox\n", s.DriverUrl)
		fmt.Fprintf(w, "  Caught mail\t%s\n", s.MailUrl)
		fmt.Fprintf(w, "  Client ID\t%s\n", s.Client.ClientId)
		fmt.Fprintf(w, "  Client secret\t%s\n", s.Client.ClientSecret)
		fmt.Fprintf(w, "  Callback\t%s\n", s.Client.CallbackUrl)
		fmt.Fprintf(w, "  Webhooks go to\t%s\n", s.Client.WebhookUrl)
		fmt.Fprintf(w, "  Their secret\t%s\n", s.Client.WebhookSecret)
		for _, user := range s.Users {
			fmt.Fprintf(w, "  User, %s\t%s  %s\n", user.Kind, user.UserId, user.Timezone)
		}
		fmt.Fprintf(w, "\nThe driver's API is described in api/sandbox.yaml, and its use in CI in docs/sandbox.md.\n")
	})
}
