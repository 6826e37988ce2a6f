package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"connect-svc/internal/app"
	"connect-svc/internal/brand"
	"connect-svc/internal/locale"
	"connect-svc/internal/web/pages"
)

// brandSettings are how the pages and emails look to users.
type brandSettings struct {
	BrandName       string            `setting:"" type:"brand name" default:"Activity Connect" placeholder:"NAME" help:"The name that users see on pages and in emails."`
	BrandLogo       brand.Logo        `setting:"" type:"logo" placeholder:"FILE" help:"Logo on pages, SVG or PNG. Empty: the built-in mark."`
	BrandLogoDark   brand.Logo        `setting:"" type:"logo" placeholder:"FILE" help:"Logo on dark pages. Empty: the same logo."`
	BrandColor      brand.Color       `setting:"" type:"color" placeholder:"#RRGGBB" help:"Color of buttons and links, lightened on dark pages where needed. Empty: green."`
	BrandSupportURL string            `setting:"" type:"support page" name:"brand-support-url" placeholder:"URL" help:"Where users get help: https://… or mailto:…"`
	BrandPrivacyURL string            `setting:"" type:"page" name:"brand-privacy-url" placeholder:"URL" help:"The operator's privacy policy."`
	TextsDir        *locale.Catalogue `setting:"" type:"texts" placeholder:"FOLDER" help:"Folder of files such as de.toml, whose texts replace the built-in ones, and add languages to the console."`
}

func (s brandSettings) brand() brand.Brand {
	return brand.Brand{
		Name: s.BrandName, Logo: s.BrandLogo, LogoDark: s.BrandLogoDark, Color: s.BrandColor,
		SupportURL: s.BrandSupportURL, PrivacyURL: s.BrandPrivacyURL,
	}
}

// readLogo reads a file that holds a logo, and returns its content, too.
func readLogo(name string) (content []byte, logo brand.Logo, err error) {
	file, err := os.Open(name)
	if err == nil {
		defer file.Close()
		content, err = io.ReadAll(io.LimitReader(file, brand.MaxLogo+1))
	}
	if err != nil {
		return nil, logo, errors.New("is not a file that can be read")
	}
	logo, err = brand.ReadLogo(content)
	return content, logo, err
}

type brandCommands struct {
	Preview brandPreviewCommand `cmd:"" help:"Preview every page and email in a local browser." example:"connect-svc brand preview --brand-name 'Acme Move' --brand-logo logo.svg --brand-color '#5b21b6'"`
}

type brandPreviewCommand struct {
	brandSettings
	Port int `default:"8088" placeholder:"N" help:"Port on this machine (default ${default}; 0 picks a free one)."`
}

func (c brandPreviewCommand) Run(p *program) error {
	if c.Port < 0 || c.Port > 65535 {
		return usagef("--port: must be from 0 to 65535")
	}
	handler, err := pages.Preview(c.brand(), c.TextsDir)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(p.ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(c.Port)))
	if err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "All pages and emails: http://%s/\nStop with Ctrl-C.\n", listener.Addr())
	server := &http.Server{Handler: app.OnlyHosts(nil, handler), ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(p.ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
