package main

import (
	"fmt"
	"log/slog"
	"net"
	"strconv"

	"connect-svc/internal/app/listener"
	"connect-svc/internal/app/settings"
	"connect-svc/internal/edge/pages"
	"connect-svc/internal/foundation/locale"
)

type brandCommands struct {
	Preview brandPreviewCommand `cmd:"" help:"Preview every page and email in a local browser." example:"connect-svc brand preview --brand-name 'Acme Move' --brand-logo logo.svg --brand-color '#5b21b6'"`
}

type brandPreviewCommand struct {
	settings.Look
	Check bool `help:"Measure all of them in a browser instead: texts that are hard to read, parts that do not fit, buttons that are too small."`
	Port  int  `default:"8088" placeholder:"N" help:"Port on this machine (default ${default}; 0 picks a free one)."`
}

func (c brandPreviewCommand) Run(p *program) error {
	if c.Port < 0 || c.Port > 65535 {
		return usagef("--port: must be from 0 to 65535")
	}
	if c.Check {
		problems, measured, err := pages.Check(p.ctx, c.Brand, c.Texts)
		if err != nil {
			return err
		}
		for _, problem := range problems {
			fmt.Fprintln(p.stdout, problem)
		}
		if len(problems) > 0 {
			return fmt.Errorf("%d problems on %d pages and emails", len(problems), measured)
		}
		fmt.Fprintf(p.stdout, "%d pages and emails: no problem.\n", measured)
		return nil
	}
	handler, err := pages.Preview(c.Brand, c.Texts)
	if err != nil {
		return err
	}
	open, err := new(net.ListenConfig).Listen(p.ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(c.Port)))
	if err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "All pages and emails: http://%s/\nStop with Ctrl-C.\n", open.Addr())
	return listener.ServeLocally(p.ctx, open, nil, handler, 0, slog.Default())
}

type textsCommands struct {
	Export textsExportCommand `cmd:"" help:"Print a language, as a start for another one." detail:"A file with all texts of the pages and emails adds a language, if it is in CONNECT_TEXTS_DIR under the code of that language. A file for a region of a language, such as de-AT.toml, needs only what differs." example:"connect-svc texts export en > texts/da.toml"`
}

type textsExportCommand struct {
	Language string `arg:"" help:"Code of a language, such as en or pt-BR."`
	Console  bool   `help:"The texts of the console, which are in English alone."`
}

func (c textsExportCommand) Run(p *program) error {
	texts, err := locale.Source(c.Language, c.Console)
	if err != nil {
		return usagef("<language>: %w", err)
	}
	_, err = p.stdout.Write(texts)
	return err
}
