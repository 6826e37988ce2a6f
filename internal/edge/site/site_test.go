package site_test

import (
	"html/template"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/go-chi/chi/v5"

	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/locale"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/wait"
)

// A user's page is rendered next, however many pages strangers have asked for before.
func TestRenderingTakesTurns(t *testing.T) {
	t.Parallel()
	rendering, goOn := make(chan string), make(chan struct{})
	pages, err := site.New(site.Config{
		Files: fstest.MapFS{
			"static/a.css":               {},
			"templates/shared/page.html": {Data: []byte(`{{define "layout"}}{{whose .}}{{end}}`)},
			"templates/page.html":        {Data: []byte(`{{define "main"}}{{end}}`)},
		},
		Funcs: func(*locale.Locale) template.FuncMap {
			return template.FuncMap{"whose": func(name string) string {
				rendering <- name
				<-goOn
				return name
			}}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var writing sync.WaitGroup
	ask := func(kind work.Kind, name string) {
		r := httptest.NewRequestWithContext(work.WithCaller(t.Context(), work.Caller{Kind: kind, Name: name}), http.MethodGet, "/", nil)
		writing.Go(func() {
			answer := httptest.NewRecorder()
			pages.Write(answer, r, http.StatusOK, "page", name)
			if got := answer.Body.String(); got != name {
				t.Errorf("%q has the page of %q", name, got)
			}
		})
	}
	places := site.Places()
	const strangers = 100
	for n := range strangers {
		ask(work.Strangers, strconv.Itoa(n%3))
	}
	var rendered []string
	for range places {
		rendered = append(rendered, wait.For(t, "a page is rendered", rendering))
	}
	ask(work.Users, "ada")
	wait.Until(t, "all others wait", func() bool { return pages.Waiting() == strangers-places+1 })
	select {
	case name := <-rendering:
		t.Errorf("the page of %s is rendered beside %d others", name, places)
	default:
	}
	for range strangers + 1 - places {
		goOn <- struct{}{}
		rendered = append(rendered, wait.For(t, "a page is rendered", rendering))
	}
	for range places {
		goOn <- struct{}{}
	}
	writing.Wait()
	if turn := slices.Index(rendered, "ada") - places; turn < 0 || turn > 1 {
		t.Errorf("the user's page is rendered after %d of strangers", turn)
	}
}

// A page that panics is a fault of the service, whose cause in the log has the stack.
func TestPageThatPanics(t *testing.T) {
	t.Parallel()
	var cause error
	page := site.Handle(func(http.ResponseWriter, *http.Request) error { panic("no such field") },
		func(w http.ResponseWriter, _ *http.Request, err error) {
			cause = err
			w.WriteHeader(http.StatusInternalServerError)
		})
	answer := httptest.NewRecorder()
	page(answer, httptest.NewRequest(http.MethodGet, "/", nil))
	if answer.Code != http.StatusInternalServerError || cause == nil || !strings.Contains(cause.Error(), "site_test.TestPageThatPanics") {
		t.Errorf("%d, %v", answer.Code, cause)
	}
}

// A path that only begins with the same letters is another one.
func TestIsBelow(t *testing.T) {
	t.Parallel()
	for _, root := range []string{"/console", "/console/"} {
		for path, below := range map[string]bool{
			"/console": true, "/console/": true, "/console/users": true, "/consoles": false, "/": false, "": false, "/other/console": false,
		} {
			if got := site.IsBelow(path, root); got != below {
				t.Errorf("%q below %q: %v", path, root, got)
			}
		}
	}
}

// While servers are replaced one after the other, or read another brand, a page of one server loads its files from another one, which has them
// under other names. Nobody keeps what comes under such a name.
func TestFilesOfAnotherServer(t *testing.T) {
	t.Parallel()
	open := func(style, hue string) *site.Site {
		color, err := brand.ParseColor(hue)
		if err != nil {
			t.Fatal(err)
		}
		logo, err := brand.ReadLogo([]byte(`<svg xmlns="http://www.w3.org/2000/svg"><path fill="` + hue + `" d="M0 0h9v9z"/></svg>`))
		if err != nil {
			t.Fatal(err)
		}
		pages, err := site.New(site.Config{
			Static: "/static/", Brand: brand.Brand{Color: color, Logo: logo},
			Files: fstest.MapFS{
				"static/a.css":               {Data: []byte(style)},
				"templates/shared/page.html": {Data: []byte(`{{define "layout"}}{{asset "a.css"}} {{asset (brand).Style}} {{asset (brand).Logo.Name}}{{end}}`)},
				"templates/page.html":        {Data: []byte(`{{define "main"}}{{end}}`)},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return pages
	}
	ask := func(server *site.Site, path string) *httptest.ResponseRecorder {
		router := chi.NewRouter()
		router.Get("/static/{name}", func(w http.ResponseWriter, r *http.Request) {
			if server.ServeFile(w, r) != nil {
				w.WriteHeader(http.StatusNotFound)
			}
		})
		answer := httptest.NewRecorder()
		router.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return answer
	}
	former, next := open("a { color: red }", "#5b21b6"), open("a { color: blue }", "#0b5a41")
	loaded := func(server *site.Site) []string {
		page := httptest.NewRecorder()
		server.Write(page, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), http.StatusOK, "page", nil)
		return strings.Fields(page.Body.String())
	}
	own := loaded(next)
	for i, path := range loaded(former) {
		got, want := ask(next, path), ask(next, own[i])
		if got.Code != http.StatusOK || got.Body.String() != want.Body.String() || got.Header().Get("Content-Type") != want.Header().Get("Content-Type") {
			t.Errorf("a page of the other server has no %s: %d", path, got.Code)
		}
		if kept := got.Header().Get("Cache-Control"); path == own[i] || kept != "" {
			t.Errorf("%s is kept: %q", path, kept)
		}
		if kept := want.Header().Get("Cache-Control"); !strings.Contains(kept, "immutable") {
			t.Errorf("%s is not kept: %q", own[i], kept)
		}
	}
	for _, path := range []string{"/static/b.0123456789abcdef.css", "/static/a.0123456789abcdef.svg", "/static/logo-0123456789abcdef.png"} {
		if got := ask(next, path); got.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, got.Code)
		}
	}
}
