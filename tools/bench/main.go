package main

import (
	"context"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

type commands struct {
	Measure  measureCommand  `cmd:"" default:"withargs" help:"Measure operations beside their limits."`
	Costs    costsCommand    `cmd:"" help:"Measure what operations and users cost."`
	Constant constantCommand `cmd:"" hidden:""`
}

// settings of every measurement.
type settings struct {
	Seconds   int            `default:"2" help:"Length of each measurement."`
	Only      *regexp.Regexp `default:"." help:"Measure what matches this regular expression."`
	Program   string         `default:"bin/connect-svc" help:"The program to measure; its schema must be that of this checkout."`
	StepsRows int            `default:"1000000" help:"Rows of daily steps in the database."`
	Profiles  string         `help:"Directory for CPU profiles; needs a program built with -tags profile."`
}

func (s settings) duration() time.Duration { return time.Duration(s.Seconds) * time.Second }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	command := kong.Parse(&commands{}, kong.Name("connect-bench"), kong.BindTo(ctx, (*context.Context)(nil)))
	command.FatalIfErrorf(command.Run())
}
