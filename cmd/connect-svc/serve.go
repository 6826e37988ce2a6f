package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"connect-svc/internal/app"
	"connect-svc/internal/app/settings"
	"connect-svc/internal/foundation/telemetry"
)

type serveCommand struct{ app.Config }

// Run serves until it is asked to stop.
func (c *serveCommand) Run(p *program, from *settings.Source) (err error) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	level := new(slog.LevelVar)
	level.Set(c.LogLevel)
	logger, flush := telemetry.NewGatheringLogger(p.stderr, level)
	defer flush()
	config := c.Config
	of := built()
	config.Version, config.Commit = of.Version, of.Commit
	config.Logger = logger
	config.Memory = app.LimitMemory(memlimit.FromCgroup)
	for _, name := range from.Unknown() {
		logger.Warn("not a setting of this program", "variable", name)
	}
	if config.Traces, err = telemetry.NewTraces(p.ctx, logger); err != nil {
		return usageError{err}
	}
	defer stopTraces(config.Traces)
	service, err := app.Open(p.ctx, config)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(p.ctx)
	defer stop()
	again := reloader{program: p, service: service, level: level, last: c.Config, start: from, keys: keysOf(c.Config)}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangups:
				again.log(logger)
			}
		}
	}()
	return service.Run(ctx)
}

// stopTraces uses what is left of the fifteen seconds that stopping may take after the drain delay.
func stopTraces(traces *telemetry.Traces) {
	ctx, cancel := context.WithTimeout(context.Background(), 800*time.Millisecond)
	defer cancel()
	traces.Stop(ctx)
}
