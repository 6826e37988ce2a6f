package app

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"connect-svc/internal/fairqueue"
	"connect-svc/internal/postgres"
	"connect-svc/internal/postgres/migrate"
)

var (
	errStopping = errors.New("stopping")
	errStuck    = errors.New("no connection of this server's pool comes free, and other servers reach the database")
)

// readiness is what probes have found out.
type readiness struct {
	sync.Mutex
	misfit error     // as of the last time that the database told its schema
	stuck  time.Time // since when no statement has got through this server's pool; zero: the last one did
}

// ready returns why another server would answer requests better: this one stops, its program does not suit the schema, or its pool is
// stuck while others reach the database. If the database is away, it is away for all servers. Then ready returns no reason, but why
// the database is away: callers shall get the documented errors, and not those of a load balancer that has no server left.
func (a *App) ready(ctx context.Context) (unready, away error) {
	if a.stopping.Load() {
		return errStopping, nil
	}
	ctx, cancel := context.WithTimeout(postgres.AnyClock(ctx), a.config.Limits.Probe)
	defer cancel()
	inPool, leave := fairqueue.Within(ctx, fairqueue.Caller{Kind: fairqueue.Background}, a.config.Limits.Probe*3/5)
	defer leave()
	err := CheckSchema(inPool, a.Pool)
	_, misfit := errors.AsType[migrate.Misfit](err)

	a.readiness.Lock()
	if err == nil || misfit {
		a.readiness.misfit, a.readiness.stuck = err, time.Time{}
	} else if a.readiness.stuck.IsZero() {
		a.readiness.stuck = time.Now()
	}
	known, stuck := a.readiness.misfit, a.readiness.stuck
	a.readiness.Unlock()

	switch {
	case known != nil:
		return known, nil
	case err == nil:
		return nil, nil
	case fairqueue.NotAttempted(err):
		if others, failure := a.servers.OthersWork(ctx, time.Since(stuck)); failure == nil && others {
			return errStuck, err
		}
	}
	return nil, err
}

// status is the answer to a probe.
type status struct {
	Status string            `json:"status"`
	Reason string            `json:"reason,omitempty"`
	Checks map[string]string `json:"checks,omitempty"`
}

// describe adds the reason why the service is not ready, if there is one. A database that is away, a mail server that refuses emails, and
// a clock of the database that is wrong are not reasons: all servers have them.
func (s *status) describe(a *App, unready, away error, verbose bool) {
	service := "ok"
	if unready != nil {
		s.Reason, service = unready.Error(), unready.Error()
	}
	if !verbose {
		return
	}
	mail, used := a.Accounts.MailTrouble()
	switch {
	case !used:
		mail = "not used yet"
	case mail == "":
		mail = "ok"
	}
	s.Checks = map[string]string{"service": service, "mail_server": mail, "database": "ok"}
	if away != nil {
		s.Checks["database"] = postgres.Reason(away)
	}
	if clock := a.servers.Clock(); clock.Wrong() {
		s.Checks["clock"] = clock.String()
	}
}

func writeStatus(w http.ResponseWriter, code int, answer status) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer) // fails only if the caller has gone
}
