package browsertest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestBrowser shows that the browser tells a sound page from a broken one: a test of pages that could not fail would
// say nothing.
func TestBrowser(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /sound", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "__Host-seen", Value: "yes", Path: "/", Secure: true, HttpOnly: true})
		_, _ = io.WriteString(w, `<!doctype html><link rel="icon" href="data:,"><title>Sound</title>
			<form action="/broken"><button>Go</button></form>`)
	})
	mux.HandleFunc("GET /broken", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; img-src data:")
		_, _ = io.WriteString(w, `<!doctype html><link rel="icon" href="data:,"><title>Broken</title><p style="color: red">`)
	})
	mux.HandleFunc("GET /cookies", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Cookie"))
	})
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)

	browser := Share(t, map[string]string{"pages.example": server.Listener.Addr().String()})
	tab := browser.NewTab(t)
	if status := tab.Open("https://pages.example/sound"); status != http.StatusOK {
		t.Fatalf("status = %d, want 200", status)
	}
	if got := tab.Problems(); len(got) != 0 {
		t.Errorf("problems of a sound page: %q", got)
	}
	picture := filepath.Join(t.TempDir(), "made", "sound.png")
	tab.Screenshot(picture)
	if content, err := os.ReadFile(picture); err != nil || !strings.HasPrefix(string(content), "\x89PNG") {
		t.Errorf("no picture: %v", err)
	}

	if status := tab.Submit(chromedp.Click(chromedp.CSS("button"))); status != http.StatusOK {
		t.Errorf("status of the page after the click = %d, want 200", status)
	}
	if got, want := tab.Location(), "https://pages.example/broken?"; got != want {
		t.Errorf("location = %q, want %q", got, want)
	}
	if got := strings.Join(tab.Problems(), "\n"); !strings.Contains(got, "style-src") {
		t.Errorf("the refused style is not among the problems: %q", got)
	}

	shared, private := tab.NewTab(), browser.NewTab(t)
	shared.Open("https://pages.example/cookies")
	private.Open("https://pages.example/cookies")
	var mine, other string
	shared.Evaluate("document.body.innerText", &mine)
	private.Evaluate("document.body.innerText", &other)
	if mine != "__Host-seen=yes" || other != "" {
		t.Errorf("cookies of the same window %q and of another %q", mine, other)
	}
}

// TestFaults shows that the measurements find what is wrong, and nothing on a sound page.
func TestFaults(t *testing.T) {
	t.Parallel()
	pages := http.NewServeMux()
	pages.HandleFunc("GET /sound", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `<!doctype html><html lang="en"><title>Sound</title><main><h1>Sound</h1>
			<label for="a">Name</label><p id="hint">As it is written</p>
			<input id="a" aria-describedby="hint" aria-invalid="true" style="height: 2rem"></main>`)
	})
	pages.HandleFunc("GET /faulty", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `<!doctype html><title>Faulty</title><main>
			<p style="color: #999">pale</p>
			<input style="border: 1px solid #ddd; width: 5rem; height: 2rem">
			<button style="width: 1rem; height: 1rem; padding: 0"></button>
			<form><button style="border: 0; background: #eee; color: #000">Flat</button></form>
			<p style="display: flex">back to <b>Stride</b></p>
			<p style="width: 2000px">wide</p></main>`)
	})
	measured := make(chan struct{})
	pages.HandleFunc("GET /styled", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `<!doctype html><title>Styled</title><link rel="stylesheet" href="/style.css"><main><a href="/">Home</a></main>`)
	})
	pages.HandleFunc("GET /style.css", func(w http.ResponseWriter, r *http.Request) {
		<-measured
		w.Header().Set("Content-Type", "text/css")
		_, _ = io.WriteString(w, "a { display: inline-block; padding: 1rem }"+strings.Repeat("/* long */", 1<<20))
	})
	server := httptest.NewServer(pages)
	t.Cleanup(server.Close)
	tab := Share(t, nil).NewTab(t)

	// A page that loads itself anew is measured once it has its style sheet.
	var assigned string
	tab.Evaluate(fmt.Sprintf(`(location = %q)`, server.URL+"/styled"), &assigned)
	tab.WaitTitle("Styled")
	close(measured)
	if got := tab.LayoutFaults(); len(got) != 0 {
		t.Errorf("faults of a page that waits for its style sheet: %q", got)
	}

	tab.Open(server.URL + "/sound")
	if got := tab.LayoutFaults(); len(got) != 0 {
		t.Errorf("faults of a sound page: %q", got)
	}
	if got := tab.Violations(); len(got) != 0 {
		t.Errorf("violations on a sound page: %q", got)
	}
	var found bool
	for _, node := range tab.Accessible() {
		if node.Role == "textbox" {
			found = true
			if node.Name != "Name" || node.Description != "As it is written" || !node.Is("invalid", "true") {
				t.Errorf("the field is %+v", node)
			}
		}
	}
	if !found {
		t.Error("the field is not in the accessibility tree")
	}

	tab.Open(server.URL + "/faulty")
	got := strings.Join(tab.LayoutFaults(), "\n")
	for _, want := range []string{`contrast 2.85 of p. "pale"`, "of the edge of input", `of the edge of button. "Flat"`, "target of 16 by 16", "beyond the window", "2008 wide", `no space beside "back to" in p.`} {
		if !strings.Contains(got, want) {
			t.Errorf("not found: %s; faults:\n%s", want, got)
		}
	}
	got = strings.Join(tab.Violations(), "\n")
	for _, want := range []string{"html-has-lang: ", "button-name: ", "label: ", "color-contrast: "} {
		if !strings.Contains(got, want) {
			t.Errorf("not found: %s; violations:\n%s", want, got)
		}
	}
}
