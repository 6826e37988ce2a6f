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
	"github.com/google/uuid"

	"connect-svc/api"
	"connect-svc/internal/admin/servers"
	"connect-svc/internal/app/listener"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/edge/console"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/postgres/migrate"
	"connect-svc/internal/foundation/postgres/replica"
	"connect-svc/internal/foundation/work"
)

// partnerDocument is the document of the partner API; nil is not reached, because the partner API needs the document to start.
var partnerDocument = sync.OnceValue(func() *openapi3.T {
	document, err := openapi3.NewLoader().LoadFromData(api.Partner)
	if err != nil {
		return nil
	}
	return document
})

// ContractVersion is the version of the partner API.
func ContractVersion() string {
	if document := partnerDocument(); document != nil {
		return document.Info.Version
	}
	return "unknown"
}

// facts describes the service now. It asks the other systems concurrently.
func (a *App) facts(ctx context.Context) console.Facts {
	counts := a.Accounts.Counts()
	trouble, used := a.Accounts.MailTrouble()
	f := console.Facts{
		At: a.config.Clock.Now(), Version: a.config.Version, Commit: a.config.Commit, Go: runtime.Version(), Contract: ContractVersion(),
		Self: a.servers.ID(), Alerts: a.alerts.Firing(),
		Mail:  console.Mail{Sent: counts.EmailsSent, Failed: counts.EmailsFailed, Used: used, Trouble: trouble},
		Redis: a.config.LimiterURL != "", Replicas: postgres.Map(a.Replicas.States(), func(r replica.State) console.Replica { return console.Replica(r) }),
		Reload: a.lastReload(), Clock: a.servers.Clock(),
	}
	a.secured(func(name string, certificate *listener.Presented) {
		leaf := certificate.Leaf()
		f.Certificates = append(f.Certificates, console.Certificate{
			Listener: name, Names: append(slices.Clone(leaf.DNSNames), postgres.Map(leaf.IPAddresses, net.IP.String)...),
			NotAfter: leaf.NotAfter, Problem: certificate.Problem(),
		})
	})
	ctx, cancel := context.WithTimeout(work.AnyClock(ctx), a.config.Limits.Facts) // a page without one answer is better than none
	defer cancel()
	var questions sync.WaitGroup
	find(a, &questions, "servers", &f.Servers, func() ([]servers.Server, error) { return a.servers.List(ctx) })
	find(a, &questions, "database", &f.Database, func() (servers.Database, error) { return a.servers.Database(ctx) })
	find(a, &questions, "migrations", &f.Migrations, func() (console.Migrations, error) {
		schema, err := migrate.SchemaOf(ctx, a.Pool)
		return console.Migrations{Applied: schema.Current, Known: schema.Needed}, err
	})
	find(a, &questions, "keyset", &f.Keys, func() (keys []console.Key, err error) { // with the first use of each key
		since, err := credential.MarkedSince(ctx, a.Pool)
		if err != nil {
			return nil, err
		}
		for _, key := range a.config.Keys.Keys() {
			id := strconv.FormatUint(uint64(key.ID), 10)
			keys = append(keys, console.Key{ID: id, Status: string(key.Status), Since: since[id]})
		}
		return append(keys, console.Key{Status: "identifiers", Since: since[credential.IdentifierKey]}), nil
	})
	find(a, &questions, "emails", &f.MailWaiting, func() (w console.MailWaiting, err error) {
		w.Count, w.Oldest, err = a.Accounts.EmailsWaiting(ctx)
		return w, err
	})
	find(a, &questions, "webhooks", &f.Webhooks, func() (webhook.Queue, error) { return a.Webhooks.Queue(ctx) })
	find(a, &questions, "limiter", &f.Limiter, func() (time.Duration, error) {
		began := time.Now()
		err := a.limiter.Check(ctx)
		return time.Since(began), err
	})
	questions.Wait()
	return f
}

// alertsNow has the servers and the alerts that fire.
func (a *App) alertsNow(ctx context.Context) console.Facts {
	f := console.Facts{At: a.config.Clock.Now(), Self: a.servers.ID(), Alerts: a.alerts.Firing()}
	ctx, cancel := context.WithTimeout(work.AnyClock(ctx), a.config.Limits.Facts)
	defer cancel()
	var questions sync.WaitGroup
	find(a, &questions, "servers", &f.Servers, func() ([]servers.Server, error) { return a.servers.List(ctx) })
	questions.Wait()
	return f
}

// find asks a question concurrently with others. If there is no answer, it logs why.
func find[T any](a *App, questions *sync.WaitGroup, name string, into *console.Optional[T], question func() (T, error)) {
	questions.Go(func() {
		var value T
		err := work.Try(func() (err error) {
			value, err = question()
			return err
		})
		if err != nil {
			a.logger.Warn("facts of the service", "about", name, "cause", err)
			return
		}
		*into = console.Optional[T]{Known: true, Value: value}
	})
}

// dismiss forgets a server that is lost and will not come back. An error of the audit log keeps it.
func (a *App) dismiss(ctx context.Context, id uuid.UUID) error {
	list, err := a.servers.List(ctx)
	if i := slices.IndexFunc(list, func(s servers.Server) bool { return s.ID == id }); err != nil || i < 0 || !list[i].Lost() {
		return err
	}
	if err := a.Audit.RecordDismissal(ctx, id); err != nil {
		return err
	}
	return a.servers.Dismiss(ctx, id)
}
