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

	"connect-svc/internal/edge/site"
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
