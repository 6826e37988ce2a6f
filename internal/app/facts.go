package app

import (
	"context"
	"net"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"connect-svc/api"
	"connect-svc/internal/overview"
	"connect-svc/internal/postgres"
)

// ContractVersion is that of the partner API.
var ContractVersion = sync.OnceValue(func() string {
	document, err := openapi3.NewLoader().LoadFromData(api.Partner)
	if err != nil {
		return "unknown" // the partner API does not start without it
	}
	return document.Info.Version
})

// facts are what is known of the service now. What others must be asked for is asked at the same time.
func (a *App) facts(ctx context.Context) overview.Facts {
	counts := a.Accounts.Counts()
	trouble, used := a.Accounts.MailTrouble()
	f := overview.Facts{
		At: a.config.Clock.Now(), Version: a.config.Version, Commit: a.config.Commit, Go: runtime.Version(), Contract: ContractVersion(),
		Self: a.overview.ID(), Alerts: a.alerts.Firing(), Unwatched: a.alerts.Dropped(),
		Mail:    overview.Mail{Sent: counts.EmailsSent, Failed: counts.EmailsFailed, Used: used, Trouble: trouble},
		Limiter: overview.Limiter{Redis: a.config.LimiterURL != ""}, Replicas: a.Replicas.States(),
		Reload: a.lastReload(),
	}
	for _, c := range a.certificates {
		leaf := c.current.Load().Leaf
		f.Certificates = append(f.Certificates, overview.Certificate{
			Listener: c.listener, Names: append(slices.Clone(leaf.DNSNames), postgres.Map(leaf.IPAddresses, net.IP.String)...),
			NotAfter: leaf.NotAfter, Problem: c.problem(leaf),
		})
	}
	ctx, cancel := context.WithTimeout(ctx, a.config.Limits.Facts) // a page that lacks one answer is better than none
	defer cancel()
	var questions sync.WaitGroup
	find(a, &questions, "servers", &f.Servers, func() ([]overview.Server, error) { return a.overview.Servers(ctx) })
	find(a, &questions, "database", &f.Database, func() (overview.Database, error) { return a.overview.Database(ctx) })
	find(a, &questions, "migrations", &f.Migrations, func() (overview.Migrations, error) {
		schema, err := postgres.SchemaOf(ctx, a.Pool)
		return overview.Migrations{Applied: schema.Current, Known: schema.Needed}, err
	})
	find(a, &questions, "keyset", &f.Keys, func() ([]overview.Key, error) { return a.keys(ctx) })
	find(a, &questions, "emails", &f.MailWaiting, func() (w overview.Waiting, err error) {
		w.Count, w.Oldest, err = a.Accounts.EmailsWaiting(ctx)
		return w, err
	})
	find(a, &questions, "webhooks", &f.Webhooks, func() (overview.Webhooks, error) { return a.queue(ctx) })
	var answered overview.Asked[time.Duration]
	find(a, &questions, "limiter", &answered, func() (time.Duration, error) {
		began := time.Now()
		err := a.limiter.Check(ctx)
		return time.Since(began), err
	})
	questions.Wait()
	f.Limiter.Answers, f.Limiter.Took = answered.Known, answered.Is
	return f
}

// find asks a question beside others. Where there is no answer, the log says why.
func find[T any](a *App, questions *sync.WaitGroup, what string, into *overview.Asked[T], question func() (T, error)) {
	questions.Go(func() {
		is, err := question()
		if err != nil {
			a.logger.Warn("facts of the service", "about", what, "cause", err)
			return
		}
		*into = overview.Asked[T]{Known: true, Is: is}
	})
}

// keys are those of the keyset, with when each was used first.
func (a *App) keys(ctx context.Context) (keys []overview.Key, err error) {
	since, err := postgres.KeysMarked(ctx, a.Pool)
	if err != nil {
		return nil, err
	}
	for _, key := range a.config.Keys.Keys() {
		id := strconv.FormatUint(uint64(key.ID), 10)
		keys = append(keys, overview.Key{ID: id, Status: string(key.Status), Since: since[id]})
	}
	return append(keys, overview.Key{Status: "identifiers", Since: since[postgres.NeverRotates]}), nil
}

func (a *App) queue(ctx context.Context) (q overview.Webhooks, err error) {
	now, err := a.Webhooks.Queue(ctx)
	if err != nil {
		return q, err
	}
	q = overview.Webhooks{Waiting: now.Waiting, Due: now.Due, Oldest: now.Oldest, Failed: now.Failed}
	for _, age := range now.Ages {
		q.Ages = append(q.Ages, overview.Age(age))
	}
	return q, nil
}
