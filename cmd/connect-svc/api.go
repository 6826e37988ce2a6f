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
	"strings"
	"time"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/api/operator"
	"connect-svc/internal/audit"
	"connect-svc/internal/client"
	"connect-svc/internal/credential"
	"connect-svc/internal/oauth"
	"connect-svc/internal/telemetry"
	"connect-svc/internal/timelimit"
	"connect-svc/internal/usage"
	"connect-svc/internal/webhook"
)

// operatorAPI calls the handlers of the operator API in this process, so that a command checks, acts, fails and is audited as the API does.
type operatorAPI struct {
	*operatorapi.Caller
	db      *database
	handler http.Handler
	cause   error // of the latest answer, if the service could not do all that it was asked
}

// unhurriedAPI is an operatorAPI whose statements take the time that they need.
type unhurriedAPI struct{ *operatorAPI }

// ProvideAPI makes kong connect before it calls Run.
func (s databaseSetting) ProvideAPI(p *program) (*operatorAPI, error) {
	db, err := s.open(p)
	if err != nil {
		return nil, err
	}
	return newAPI(db, nil, webhook.Settings{})
}

// ProvideUnhurriedAPI is the same without a limit for statements.
func (s databaseSetting) ProvideUnhurriedAPI(p *program) (unhurriedAPI, error) {
	db, err := s.ProvideUnhurried(p)
	if err != nil {
		return unhurriedAPI{}, err
	}
	api, err := newAPI(db.database, nil, webhook.Settings{})
	return unhurriedAPI{api}, err
}

// newAPI needs keys only to set, test or rotate a webhook.
func newAPI(db *database, keys *credential.Keyring, webhooks webhook.Settings) (*operatorAPI, error) {
	a := &operatorAPI{db: db}
	handler, err := operator.NewInProcess(operator.Config{
		Accounts: db.accounts(),
		Activity: db.activity(),
		OAuth:    oauth.New(db.Pool, nil, oauth.Settings{}),
		Clients:  client.NewRegistry(db.Pool, oauth.EndConnectionsOfClient),
		Webhooks: webhook.New(db.Pool, keys, webhooks),
		Usage:    usage.New(db.Pool, timelimit.Default, slog.New(slog.DiscardHandler), time.Now),
		Audit:    audit.New(db.Pool, timelimit.Default, 0),
		Now:      time.Now,
	})
	if err != nil {
		return nil, err
	}
	a.handler = telemetry.Requests(slog.New(slog.DiscardHandler), handler, func(event *telemetry.Event) { a.cause = event.Cause })
	a.Caller, err = operatorapi.NewClient("http://localhost", operatorapi.WithHTTPClient(a))
	return a, err
}

// sealing returns the api with a keyset, which must be the database's. Without one it is the api itself.
func (a *operatorAPI) sealing(p *program, keys *credential.Keyring, webhooks webhook.Settings) (*operatorAPI, error) {
	if keys == nil {
		return a, nil
	}
	if err := keys.CheckMarks(p.ctx, a.db.Pool); err != nil {
		return nil, err
	}
	return newAPI(a.db, keys, webhooks)
}

// recorder is a response in memory.
type recorder struct {
	bytes.Buffer
	header http.Header
	status int
}

func (r *recorder) Header() http.Header    { return r.header }
func (r *recorder) WriteHeader(status int) { r.status = cmp.Or(r.status, status) }

// Do implements [operatorapi.HttpRequestDoer]. An answer that is an error comes back as one.
func (a *operatorAPI) Do(r *http.Request) (_ *http.Response, err error) {
	defer func() {
		if recover() == any(http.ErrAbortHandler) { // asked to stop; a panic of a handler is a 500 by now
			err = cmp.Or(a.cause, r.Context().Err())
		}
	}()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	answer := &recorder{header: http.Header{}}
	a.handler.ServeHTTP(answer, r)
	if answer.status >= http.StatusBadRequest {
		return nil, a.failure(answer)
	}
	return &http.Response{StatusCode: answer.status, Header: answer.header, Body: io.NopCloser(&answer.Buffer)}, nil
}

// failure is an error of the API for the person who typed the command. A 500 says nothing to others, but here its cause is theirs.
func (a *operatorAPI) failure(answer *recorder) error {
	var problem operatorapi.Problem
	switch err := json.Unmarshal(answer.Bytes(), &problem); {
	case a.cause != nil:
		return a.cause
	case err != nil:
		return fmt.Errorf("operator API: %d: %w", answer.status, err)
	case len(problem.Errors) > 0:
		return usagef("%s: %s", flagOf(problem.Errors[0].Pointer), problem.Errors[0].Detail)
	}
	text := errors.New(strings.ToLower(problem.Title[:1]) + strings.TrimSuffix(problem.Title[1:], "."))
	if answer.status == http.StatusBadRequest {
		return usageError{text}
	}
	return text
}

// fieldFlags are the flags and arguments that are not called as their fields are.
var fieldFlags = map[string]string{
	"callback_url": "--callback", "homepage_url": "--homepage", "scopes": "--scope", "overlap_seconds": "--overlap", "url": "<url>",
}

// flagOf is the flag for a field of a request, which a JSON pointer names.
func flagOf(pointer string) string {
	segments := strings.Split(strings.TrimRight(pointer, "/0123456789"), "/") // without the place in a list
	field := segments[len(segments)-1]
	return cmp.Or(fieldFlags[field], "--"+strings.ReplaceAll(field, "_", "-"))
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
