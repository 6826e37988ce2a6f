package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"connect-svc/internal/admin/operators"
	"connect-svc/internal/app"
	"connect-svc/internal/app/settings"
	"connect-svc/internal/foundation/telemetry"
	"github.com/KimMachineGun/automemlimit/memlimit"
)

type serveCommand struct {
	app.Config
	ReadOnly bool `help:"Only show the database to operators, for a copy beside its original: serve neither partners nor users, and change and send nothing."`
}

// Run serves until it is asked to stop.
func (c *serveCommand) Run(p *program, source *settings.Source) (err error) {
	level := new(slog.LevelVar)
	level.Set(c.LogLevel)
	logger, flush := telemetry.NewGatheringLogger(p.stderr, level)
	defer flush()
	logger = logger.With("server", c.Server())
	config := c.Config
	build := built()
	config.Version, config.Commit, config.Logger, config.ReadOnly = build.Version, build.Commit, logger, c.ReadOnly
	config.Memory = app.LimitMemory(memlimit.FromCgroup)
	for _, name := range source.Unknown() {
		logger.Warn("not a setting of this program", "variable", name)
	}
	if config.Traces, err = telemetry.NewTraces(p.ctx, logger); err != nil {
		return usageError{err}
	}
	defer func() { // with what is left of the fifteen seconds that stopping may take after the drain delay
		ctx, cancel := context.WithTimeout(context.Background(), 800*time.Millisecond)
		defer cancel()
		config.Traces.Stop(ctx)
	}()
	service, err := app.Open(p.ctx, config)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(p.ctx)
	defer stop()
	again := reloader{program: p, service: service, level: level, last: c.Config, start: source, keys: keysOf(c.Config)}
	go again.follow(ctx, hangups, logger)
	return service.Run(ctx)
}

// reloader reads the settings again while the service runs.
type reloader struct {
	program *program
	service *app.App
	level   *slog.LevelVar
	last    app.Config       // as they could be read last
	start   *settings.Source // where the settings came from at the start
	keys    string           // the keyset at the start
	pending []string         // variables of settings that have changed since the start, and need a restart
}

// keysOf tells keysets apart.
func keysOf(config app.Config) string { return fmt.Sprint(config.Keys.Keys()) }

// follow reads the settings again at each signal, and says how that went.
func (r *reloader) follow(ctx context.Context, hangups <-chan os.Signal, logger *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
		}
		switch inPart, err := r.reload(); {
		case inPart:
			logger.Warn("the settings were read again; operator tokens of bad lines do not work", "problem", err)
		case err != nil:
			logger.Warn("the settings cannot be used; the old ones are kept, less the operator tokens that have gone", "problem", err)
		default:
			logger.Info("the settings were read again")
		}
		if len(r.pending) > 0 {
			logger.Warn("changes take effect only after a restart", "variables", r.pending)
		}
		if fixed := r.start.Fixed(); len(fixed) > 0 {
			logger.Warn("changes cannot be seen in the environment of a process: only files are read again, such as that of --config", "variables", fixed)
		}
	}
}

// reload reads all settings and their files again. If one cannot be used, everything stays as it is, except that operator tokens
// that have gone from their file stop working. A bad line of that file stops only its own token: then the rest was taken over.
func (r *reloader) reload() (inPart bool, err error) {
	parser, line, source := newParser(r.program)
	if _, err := parser.Parse(r.program.args); err != nil {
		// No setting is known, as where the settings file cannot be read: the tokens are looked for where they were.
		because := settings.Problems{err}
		left, err := settings.ReadOperators(r.last.OperatorToken, r.last.OperatorTokensFile)
		if err != nil {
			because = append(because, err)
		}
		return false, r.refuse(left, because)
	}
	r.last = line.Serve.Config
	r.pending = source.NeedRestart(r.start)
	if keyset := "CONNECT_KEYSET_FILE"; !source.Refused("keyset-file") && keysOf(r.last) != r.keys && !slices.Contains(r.pending, keyset) {
		r.pending = append(r.pending, keyset)
	}
	if slices.ContainsFunc(source.Problems, func(problem error) bool {
		return !settings.Refuses(problem, settings.OperatorTokensFile)
	}) {
		return false, r.refuse(r.last.Operators, source.Problems)
	}
	var badLines error
	if len(source.Problems) > 0 {
		badLines = source.Problems
	}
	if err := r.service.Reload(r.last, badLines); err != nil {
		return false, err
	}
	r.level.Set(r.last.LogLevel)
	return badLines != nil, badLines
}

// refuse takes nothing over but what is left of the operators' tokens.
func (r *reloader) refuse(left *operators.Tokens, because settings.Problems) error {
	if err := r.service.Withdraw(left, because); err != nil {
		return append(because, err)
	}
	return because
}
