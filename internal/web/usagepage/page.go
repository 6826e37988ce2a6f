package usagepage

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/brand"
	"connect-svc/internal/fairqueue"
	"connect-svc/internal/telemetry"
	"connect-svc/internal/usage"
)

//go:embed page.html usage.css mark.svg
var files embed.FS

var page = template.Must(template.New("page.html").Funcs(template.FuncMap{
	"day": day, "thousands": thousands, "percent": percent, "took": took,
}).ParseFS(files, "page.html"))

// patience is how long the page waits for the database (decisions, section 5: a response takes five seconds at most).
const patience = 4400 * time.Millisecond

// policy lets the page have its own style and its mark, and nothing else.
const policy = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'"

// windows are how far back a page looks, in hours.
var windows = map[string]int{"": 24, "24": 24, "168": 168}

type server struct {
	usage *usage.Usage
	brand brand.Brand
	now   func() time.Time
}

// New serves /usage and what the page needs below /usage/. A brand without a name is the program's own.
func New(counted *usage.Usage, of brand.Brand, now func() time.Time) http.Handler {
	of.Name = cmp.Or(of.Name, brand.DefaultName)
	s := server{counted, of, now}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /usage", s.show)
	mux.Handle("GET /usage/usage.css", http.StripPrefix("/usage/", http.FileServerFS(files)))
	mux.Handle("GET /usage/mark.svg", http.StripPrefix("/usage/", http.FileServerFS(files)))
	for _, file := range of.Files() {
		mux.HandleFunc("GET /usage/"+file.Name, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", file.MediaType)
			_, _ = w.Write(file.Content) // fails only where nobody reads it any more
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		telemetry.EventOf(r.Context()).Operation = "usage"
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	})
}

// show serves GET /usage?hours=24|168&client=ID, both of which may be left out.
func (s server) show(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	hours, known := windows[query.Get("hours")]
	if !known {
		http.Error(w, "hours is 24 or 168", http.StatusBadRequest)
		return
	}
	only := uuid.Nil
	if id := query.Get("client"); id != "" {
		var err error
		if only, err = uuid.Parse(id); err != nil || only == uuid.Nil {
			http.Error(w, "client is the id of a client", http.StatusBadRequest)
			return
		}
	}
	ctx, cancel := fairqueue.WithinWhileWanted(r.Context(), fairqueue.Operator, patience)
	defer cancel()
	// The hour that runs is the last one.
	reports, err := s.reports(ctx, only, s.now().Add(-time.Duration(hours-1)*time.Hour))
	switch {
	case errors.Is(err, usage.ErrClientNotFound):
		http.Error(w, "no such client", http.StatusNotFound)
		return
	case err != nil:
		telemetry.EventOf(r.Context()).Cause = err
		http.Error(w, "the counts cannot be had now: the log says why", http.StatusServiceUnavailable)
		return
	}
	var text bytes.Buffer
	if err := page.Execute(&text, newView(reports, s.brand, hours, only, s.now().UTC())); err != nil {
		panic(fmt.Errorf("template of usage: %w", err))
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = text.WriteTo(w) // fails only where nobody reads it any more
}

func (s server) reports(ctx context.Context, only uuid.UUID, since time.Time) ([]usage.Report, error) {
	if only == uuid.Nil {
		return s.usage.All(ctx, since)
	}
	report, err := s.usage.Of(ctx, only, since)
	return []usage.Report{report}, err
}
