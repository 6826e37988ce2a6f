package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"connect-svc/internal/app/listener"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/postgres/migrate"
	"connect-svc/internal/foundation/work"
)

var (
	errStopping = errors.New("stopping")
	errUnasked  = errors.New("not known without the database")
	errDown     = errors.New("not asked: the database is down")
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
	ctx, cancel := context.WithTimeout(work.AnyClock(ctx), a.config.Limits.Probe)
	defer cancel()
	inPool, leave := work.Within(ctx, work.Caller{Kind: work.Background}, a.config.Limits.Probe*3/5)
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
	case work.NotAttempted(err):
		if others, failure := a.servers.OthersWork(ctx, time.Since(stuck)); failure == nil && others {
			return errStuck, err
		}
	}
	return nil, err
}

type status struct {
	Status  string            `json:"status"`
	Without []string          `json:"without,omitempty"` // what is down, on all servers alike
	Reason  string            `json:"reason,omitempty"`
	Checks  map[string]string `json:"checks,omitempty"`
}

// checks are what `connect-svc check` knows, as this server sees it: "ok" or a problem. A problem of the mail server, the rate limiter, a
// replica, a certificate, the clock or a reload is not a reason to be unready: another server has it, too, or answers no better.
func (a *App) checks(ctx context.Context, away error) map[string]string {
	ctx, cancel := context.WithTimeout(work.AnyClock(ctx), a.config.Limits.Probe)
	defer cancel()
	mail, used := a.Accounts.MailTrouble()
	if !used {
		mail = "not used yet"
	}
	clock := ""
	if seen := a.servers.Clock(); seen.Wrong() {
		clock = seen.String()
	}
	a.readiness.Lock()
	schema := textOf(a.readiness.misfit)
	a.readiness.Unlock()
	checks := map[string]string{
		"mail_server": mail, "clock": clock, "schema": schema,
		"replicas": a.replicasLeftOut(), "certificates": a.certificateProblems(), "reload": a.reloadState(),
	}
	var asking sync.WaitGroup
	var limiter, keyset, database error
	if away != nil {
		database = errors.New(postgres.Reason(away))
		keyset, limiter = errUnasked, errUnasked
	} else {
		asking.Go(func() {
			keyset = work.Try(func() error { return a.config.Keys.TryMarks(ctx, postgres.Noting{Pool: a.Pool}) })
		})
	}
	if away == nil || a.config.LimiterURL != "" {
		asking.Go(func() { limiter = work.Try(func() error { return a.limiter.Check(ctx) }) })
	}
	asking.Wait()
	checks["database"], checks["keyset"], checks["limiter"] = textOf(database), textOf(keyset), textOf(limiter)
	for name, problem := range checks {
		checks[name] = cmp.Or(credential.Redact(problem), "ok")
	}
	return checks
}

// textOf is the text of an error, empty if there is none.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}

// replicasLeftOut names the replicas to which no read goes.
func (a *App) replicasLeftOut() string {
	var names []string
	for _, state := range a.Replicas.States() {
		if !state.Used {
			names = append(names, state.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "left out: " + strings.Join(names, ", ")
}

// certificateProblems says which listener's certificate no caller can use, or ends within the time of the alert ConnectCertificateEnds.
func (a *App) certificateProblems() string {
	var problems []string
	a.secured(func(name string, certificate *listener.Presented) {
		ends := certificate.Leaf().NotAfter
		if problem := certificate.Problem(); problem != "" {
			problems = append(problems, name+": "+problem)
		} else if ends.Sub(a.config.Clock.Now()) < 14*24*time.Hour {
			problems = append(problems, name+": ends "+ends.UTC().Format(time.RFC3339))
		}
	})
	return strings.Join(problems, "; ")
}

// reloadState says when the settings were read again, and what could not be used.
func (a *App) reloadState() string {
	last := a.lastReload()
	switch {
	case last.At.IsZero():
		return "not since the start"
	case last.Problem == "":
		return "ok, " + last.At.UTC().Format(time.RFC3339)
	}
	return "failed, " + last.At.UTC().Format(time.RFC3339) + ": " + last.Problem
}

func writeStatus(w http.ResponseWriter, code int, answer status) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer) // fails only if the caller has gone
}
