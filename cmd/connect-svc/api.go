package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"os"
	"os/user"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/admin/audit"
	"connect-svc/internal/admin/lookup"
	"connect-svc/internal/admin/portal"
	"connect-svc/internal/admin/usage"
	"connect-svc/internal/app"
	"connect-svc/internal/app/settings"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/edge/operator"
	"connect-svc/internal/edge/preview"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/work"
)

// databaseSetting is the setting of the commands that work on the database. Their Run has an [*operatorAPI] among its parameters.
type databaseSetting struct {
	settings.Database
	Operator string `setting:"" type:"person" placeholder:"NAME" help:"The audit log names who ran a command cli:NAME. Empty: the system's user."`
}

// operatorAPI calls the handlers of the operator API in this process, so that a command checks, acts, fails and is audited as the API
// does. Acts outside the operator API use the domains.
type operatorAPI struct {
	*operatorapi.Caller
	pool     *postgres.Pool
	accounts *account.Accounts
	activity *activity.Store
	handler  http.Handler
	to       io.Writer // of the next answer that is good, which comes otherwise as a whole; nil: none
	cause    error     // of the latest answer, if the service could not do all that it was asked
	reason   string    // of the latest answer, if it is an error
}

// ProvideAPI makes kong connect before it calls Run. The statements of a command with the tag `unhurried` may take any time. A keyset of the
// command must be the database's.
func (s databaseSetting) ProvideAPI(p *program, command *kong.Context) (*operatorAPI, error) {
	var options []postgres.Option
	if command.Selected().Tag.Has("unhurried") {
		options = append(options, postgres.WithoutStatementTimeout())
	}
	pool, err := postgres.Open(p.ctx, s.DatabaseURL, options...)
	if err != nil {
		return nil, err
	}
	p.atEnd = append(p.atEnd, pool.Close)
	p.ctx = work.WithActor(p.ctx, "cli:"+cmp.Or(s.Operator, systemUser()))
	if err := app.CheckSchema(p.ctx, pool); err != nil {
		return nil, err
	}
	var keys *credential.Keyring
	if sealing, ok := command.Selected().Target.Addr().Interface().(interface{ Ring() *credential.Keyring }); ok {
		keys = sealing.Ring()
	}
	if keys != nil {
		if err := keys.CheckMarks(p.ctx, pool); err != nil {
			return nil, err
		}
	}
	var mailer *account.Mailer
	if writing, ok := command.Selected().Target.Addr().Interface().(interface{ Mailer() *account.Mailer }); ok {
		mailer = writing.Mailer()
	}
	api, err := newAPI(pool, keys, mailer, webhook.Settings{})
	if err != nil {
		return nil, err
	}
	return api, api.resolveClients(p, command.Selected())
}

// systemUser returns the name of the system's user, with hyphens for characters that the audit log refuses. If the user has no name, as in a
// container, it returns the user's number.
func systemUser() string {
	name := "uid-" + strconv.Itoa(os.Getuid())
	if account, err := user.Current(); err == nil {
		name = account.Username
	}
	name = strings.TrimLeft(regexp.MustCompile(`[^A-Za-z0-9._-]+`).ReplaceAllString(name, "-"), "._-")
	return cmp.Or(name[:min(len(name), 64)], "unknown")
}

// newAPI needs keys only to set, test or rotate a webhook, and for the sign-ins of an address, and the mail server for addresses that are not
// ASCII.
func newAPI(pool *postgres.Pool, keys *credential.Keyring, mailer *account.Mailer, webhooks webhook.Settings) (*operatorAPI, error) {
	clients := client.NewRegistry(pool, oauth.EndConnectionsOfClient)
	webhooks.Costly = clients.Costly
	a := &operatorAPI{
		pool: pool,
		accounts: account.New(pool, keys, mailer, account.Settings{
			EndConnections: usage.Forgetting(oauth.EndConnectionsOfUser), EndRequests: oauth.EndRequestsOfUsers,
		}),
		activity: activity.New(pool, nil, activity.Settings{}),
	}
	handler, err := operator.New(operator.Config{
		Domains: preview.Domains{
			Accounts: a.accounts,
			Activity: a.activity,
			OAuth:    oauth.New(pool, nil, oauth.Settings{}),
			Clients:  clients,
			Webhooks: webhook.New(pool, keys, webhooks),
			Usage:    usage.New(pool, work.DefaultLimits, slog.New(slog.DiscardHandler), time.Now),
			Audit:    audit.New(pool, work.DefaultLimits, 0),
			Portal:   portal.New(pool),
			Finder:   lookup.New(pool),
		},
		Now:       time.Now,
		InProcess: true,
	})
	if err != nil {
		return nil, err
	}
	a.handler = telemetry.Requests(slog.New(slog.DiscardHandler), handler, func(event *telemetry.Event) { a.cause, a.reason = event.Cause, event.Reason })
	a.Caller, err = operatorapi.NewClient("http://localhost", operatorapi.WithHTTPClient(a))
	return a, err
}

// recorder is a response in memory, unless it is good and has a place to go.
type recorder struct {
	bytes.Buffer
	to     io.Writer
	header http.Header
	status int
	failed error // of that place
}

func (r *recorder) Write(part []byte) (int, error) {
	if r.to != nil && r.status < http.StatusBadRequest {
		n, err := r.to.Write(part)
		r.failed = cmp.Or(r.failed, err)
		return n, err
	}
	return r.Buffer.Write(part)
}

func (r *recorder) Header() http.Header    { return r.header }
func (r *recorder) WriteHeader(status int) { r.status = cmp.Or(r.status, status) }

// Do implements [operatorapi.HttpRequestDoer]. An answer that is an error comes back as one.
func (a *operatorAPI) Do(r *http.Request) (_ *http.Response, err error) {
	answer := &recorder{to: a.to, header: http.Header{}}
	defer func() {
		if recover() == any(http.ErrAbortHandler) { // asked to stop, or an answer is cut off; a panic of a handler is a 500 by now
			err = cmp.Or(a.cause, answer.failed, r.Context().Err())
		}
	}()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	a.handler.ServeHTTP(answer, r)
	if answer.status < http.StatusBadRequest {
		return &http.Response{StatusCode: answer.status, Header: answer.header, Body: io.NopCloser(&answer.Buffer)}, nil
	}
	var problem operatorapi.Problem
	field, wrong, named := strings.Cut(a.reason, ": ") // of a parameter
	switch err := json.Unmarshal(answer.Bytes(), &problem); {
	case a.cause != nil: // a 500 says nothing to others, but here its cause is for the person who typed the command
		return nil, a.cause
	case err != nil:
		return nil, fmt.Errorf("operator API: %d: %w", answer.status, err)
	case len(problem.Errors) > 0:
		segments := strings.Split(strings.TrimRight(problem.Errors[0].Pointer, "/0123456789"), "/") // without the place in a list
		field, wrong = segments[len(segments)-1], problem.Errors[0].Detail
	case !named || answer.status != http.StatusBadRequest:
		field = ""
	}
	if field != "" {
		return nil, usagef("%s: %s", cmp.Or(fieldFlags[field], "--"+strings.ReplaceAll(field, "_", "-")), wrong)
	}
	text := errors.New(strings.ToLower(problem.Title[:1]) + strings.TrimSuffix(problem.Title[1:], "."))
	if answer.status == http.StatusBadRequest {
		return nil, usageError{text}
	}
	return nil, text
}

// fieldFlags are the flags and arguments that are not called as their fields are.
var fieldFlags = map[string]string{
	"callback_url": "--callback", "homepage_url": "--homepage", "scopes": "--scope", "overlap_seconds": "--overlap", "url": "<url>", "text": "<text>",
}

// decode reads what an operation answers.
func decode[T any](response *http.Response, err error) (value T, _ error) {
	if err != nil {
		return value, err
	}
	defer response.Body.Close()
	decoder := json.NewDecoder(response.Body)
	decoder.UseNumber()
	return value, decoder.Decode(&value)
}

// pageRows is how many rows a list asks for at a time.
const pageRows = 1000

// rows asks for a list page by page. next returns the page at a cursor, which is nil for the first one.
func rows(next func(cursor *string) (*http.Response, error)) iter.Seq2[any, error] {
	return func(yield func(any, error) bool) {
		for cursor := (*string)(nil); ; {
			page, err := decode[struct {
				Data       []any   `json:"data"`
				NextCursor *string `json:"next_cursor"`
			}](next(cursor))
			if err != nil {
				yield(nil, err)
				return
			}
			for _, row := range page.Data {
				if !yield(row, nil) {
					return
				}
			}
			if cursor = page.NextCursor; cursor == nil {
				return
			}
		}
	}
}
