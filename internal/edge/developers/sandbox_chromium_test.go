package developers

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"connect-svc/internal/testing/browsertest"
)

// A script of this site has no power over the pages that users sign in to, which are on the same host: it can read none of them,
// and neither their cookies nor what the browser stores; and it can send them no form.
func TestScriptIsNobodyToOtherPages(t *testing.T) {
	t.Parallel()
	site := newSite(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/account" {
			site.ServeHTTP(w, r)
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "visible", Value: "to-scripts", Path: "/"})
		if r.Method != http.MethodGet {
			t.Errorf("the script had the browser send a form, from %s", r.Header.Get("Origin"))
		}
		fmt.Fprint(w, "<title>a page of a user</title>")
	}))
	t.Cleanup(server.Close)
	browser := browsertest.Share(t, nil)
	for _, page := range []string{"reference.html", "no-such-page.html"} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			tab := browser.NewTab(t)
			tab.Open(server.URL + "/account")
			tab.Open(server.URL + Path + page)
			for name, attack := range map[string]string{
				"reads a page":    `const answer = await fetch("/account", {credentials: "include"}); return answer.text()`,
				"sends a request": `await fetch("/account", {method: "POST", mode: "no-cors", credentials: "include"})`,
				"cookies":         `return document.cookie`,
				"storage":         `return localStorage.length`,
				"is somebody":     `if (origin === "null") throw "nobody"; return origin`,
				"opens a page":    `const page = open("/account"); await new Promise((done) => setTimeout(done, 300)); return page.document.title`,
				"reads it in itself": `const frame = document.createElement("iframe"); frame.src = "/account"; document.body.append(frame);
					await new Promise((done) => setTimeout(done, 300)); return frame.contentDocument.title`,
				"sends a form": `const form = document.createElement("form"); form.method = "post"; form.action = "/account";
					document.body.append(form); form.submit(); await new Promise((done) => setTimeout(done, 300)); throw "nothing was sent"`,
			} {
				var got string
				tab.Evaluate(`(async () => { try { return "got " + await (async () => {`+attack+`})() } catch (refusal) { return "refused" } })()`, &got)
				if got != "refused" {
					t.Errorf("the script %s: %s", name, got)
				}
			}
		})
	}
}
