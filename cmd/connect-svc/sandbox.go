package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"

	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/client"
	"connect-svc/internal/sandbox"
	"connect-svc/internal/telemetry"
	"connect-svc/internal/webhook"
)

type sandboxCommand struct {
	output
	Listen        string `default:"127.0.0.1:8443" placeholder:"ADDRESS" help:"The partner API: host and port, the host 127.0.0.1, ::1 or localhost (default ${default}; port 0 is any free one)."`
	PrivateListen string `default:"127.0.0.1:9090" placeholder:"ADDRESS" help:"The driver, and what else is private (default ${default}; port 0 is any free one)."`
	Callback      string `default:"https://partner.example/callback" placeholder:"URL" help:"The client's callback, which nobody calls (default ${default})."`
	WebhookURL    string `name:"webhook-url" placeholder:"URL" help:"Where webhooks go (default: to a receiver inside)."`
	CAFile        string `name:"ca-file" placeholder:"FILE" help:"Where the certificate authority to trust is written (default: a file of the sandbox's own)."`
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
		Ready: func(at sandbox.Addresses, s sandboxapi.Sandbox) error {
			return c.ready(p, at, s)
		},
	})
}

// isLoopback says whether an address is one of those that the sandbox's certificate is for, with a port.
func isLoopback(address string) bool {
	host, port, err := net.SplitHostPort(address)
	return err == nil && isPort(port, 0) && (host == "127.0.0.1" || host == "::1" || host == "localhost")
}

// ready prints what there is: one screen for people, or one JSON value for programs.
func (c sandboxCommand) ready(p *program, at sandbox.Addresses, s sandboxapi.Sandbox) error {
	if c.Output == "json" {
		encoder := json.NewEncoder(p.stdout)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(s)
	}
	fmt.Fprintf(p.stdout, "The sandbox is running. Ctrl-C stops it, and nothing of it is kept.\n\n")
	err := c.print(p, nil, func(w io.Writer) {
		fmt.Fprintf(w, "  The partner API\t%s\n", s.BaseUrl)
		fmt.Fprintf(w, "  Certificate to trust\t%s\n", s.CaFile)
		fmt.Fprintf(w, "  The driver\t%s/sandbox\n", at.Driver)
		fmt.Fprintf(w, "  Caught mail\t%s\n", at.Mail)
		fmt.Fprintf(w, "\t\n")
		fmt.Fprintf(w, "  Client ID\t%s\n", s.Client.ClientId)
		fmt.Fprintf(w, "  Client secret\t%s\n", s.Client.ClientSecret)
		fmt.Fprintf(w, "  Callback\t%s\n", s.Client.CallbackUrl)
		fmt.Fprintf(w, "  Webhooks go to\t%s\n", s.Client.WebhookUrl)
		fmt.Fprintf(w, "  Their secret\t%s\n", s.Client.WebhookSecret)
		fmt.Fprintf(w, "\t\n")
		for _, user := range s.Users {
			fmt.Fprintf(w, "  User, %s\t%s  %s\n", user.Kind, user.UserId, user.Timezone)
		}
	})
	if err == nil {
		_, err = fmt.Fprintf(p.stdout, "\nWhat the driver can do: api/sandbox.yaml. How to use it in CI: docs/sandbox.md.\n")
	}
	return err
}
