package main

import (
	"strings"

	"connect-svc/internal/foundation/locale"
)

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
		return usagef("<language>: built in are %s", strings.Join(locale.Sources(c.Console), ", "))
	}
	_, err = p.stdout.Write(texts)
	return err
}
