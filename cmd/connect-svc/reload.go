package main

import (
	"errors"
	"log/slog"

	"connect-svc/internal/app"
	"connect-svc/internal/operators"
	"connect-svc/internal/settings"
)

// reloader reads the settings again while the service runs.
type reloader struct {
	program *program
	service *app.App
	level   *slog.LevelVar
	last    settings.Service // as they could be read last
}

// errInPart is the error for settings that were taken over, all but bad lines of the operators' tokens.
type errInPart struct{ settings.Problems }

// log reads the settings again, and says how that went.
func (r *reloader) log(logger *slog.Logger) {
	err := r.reload()
	if _, inPart := errors.AsType[errInPart](err); inPart {
		logger.Warn("the settings were read again; operator tokens of bad lines do not work", "problem", err)
	} else if err != nil {
		logger.Warn("the settings cannot be used; the old ones are kept, less the operator tokens that have gone", "problem", err)
	} else {
		logger.Info("the settings were read again")
	}
}

// reload reads all settings and their files again. If one cannot be used, everything stays as it is, except that operator tokens
// that have gone from their file stop working. A bad line of that file stops only its own token.
func (r *reloader) reload() error {
	parser, line, from := newParser(r.program)
	if _, err := parser.Parse(r.program.args); err != nil {
		// No setting is known, as where the settings file cannot be read: the tokens are looked for where they were.
		because := settings.Problems{err}
		left, err := settings.ReadOperators(r.last.OperatorToken, r.last.OperatorTokensFile)
		if err != nil {
			because = append(because, err)
		}
		return r.refuse(left, because)
	}
	r.last = line.Serve.Service
	bad, others := errInPart{}, settings.Problems{}
	for _, problem := range from.Problems {
		if wrong, found := errors.AsType[settings.Error](problem); found && wrong.Flag == settings.OperatorTokensFile {
			bad.Problems = append(bad.Problems, problem)
		} else {
			others = append(others, problem)
		}
	}
	if len(others) > 0 {
		return r.refuse(r.last.Config.Operators, from.Problems)
	}
	var inPart error
	if len(bad.Problems) > 0 {
		inPart = bad
	}
	if err := r.service.Reload(r.last.Config, inPart); err != nil {
		return err
	}
	r.level.Set(r.last.LogLevel)
	return inPart
}

// refuse takes nothing over but what is left of the operators' tokens.
func (r *reloader) refuse(left *operators.Tokens, because settings.Problems) error {
	if err := r.service.Withdraw(left, because); err != nil {
		return append(because, err)
	}
	return because
}
