package main

import (
	"connect-svc/internal/app/settings"
	"connect-svc/internal/local/demo"
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
	of := built()
	return demo.Run(p.ctx, demo.Config{
		Version:     of.Version,
		Commit:      of.Commit,
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
