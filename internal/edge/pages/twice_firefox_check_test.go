//go:build check

package pages

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"

	"connect-svc/internal/testing/browsertest"
	"connect-svc/internal/testing/wait"
)

// firefox is a Firefox with one tab, driven by WebDriver BiDi (W3C).
type firefox struct {
	t       *testing.T
	conn    *websocket.Conn
	last    int
	context string
}

var listening = regexp.MustCompile(`WebDriver BiDi listening on (ws://\S+)`)

// openFirefox starts a Firefox that finds the hosts at addresses, whatever certificate they show.
func openFirefox(t *testing.T, hosts map[string]string) *firefox {
	t.Helper()
	path, err := exec.LookPath("firefox-esr")
	if err != nil {
		if path, err = exec.LookPath("firefox"); err != nil {
			t.Fatalf("no Firefox: %v", err)
		}
	}
	host, port, err := net.SplitHostPort(browsertest.Proxy(t, hosts))
	if err != nil {
		t.Fatal(err)
	}
	profile := t.TempDir()
	settings := fmt.Sprintf("user_pref(%q, 1);\nuser_pref(%q, %q);\nuser_pref(%q, %s);\n", "network.proxy.type", "network.proxy.ssl", host, "network.proxy.ssl_port", port)
	if err := os.WriteFile(filepath.Join(profile, "user.js"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	const origin = "http://localhost"
	program := exec.CommandContext(t.Context(), path, "--headless", "--no-remote", "--profile", profile, "--remote-debugging-port", "0", "--remote-allow-origins", origin) //nolint:gosec // a browser
	program.Env = append(os.Environ(), "HOME="+profile)
	output, err := program.StderrPipe()
	if err == nil {
		err = program.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	address := make(chan string, 1)
	go func() { // reads until the end: a full pipe would stop it
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if found := listening.FindStringSubmatch(lines.Text()); found != nil {
				address <- found[1]
			}
		}
	}()
	conn, err := websocket.Dial(wait.For(t, "Firefox", address)+"/session", "", origin)
	if err != nil {
		t.Fatal(err)
	}
	f := &firefox{t: t, conn: conn}
	t.Cleanup(func() {
		_, _ = f.command("browser.close", struct{}{})
		_ = conn.Close()
		_ = program.Wait()
	})
	f.do("session.new", map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{"acceptInsecureCerts": true}}}, nil)
	var tree struct{ Contexts []struct{ Context string } }
	f.do("browsingContext.getTree", struct{}{}, &tree)
	f.context = tree.Contexts[0].Context
	return f
}

// command sends a command and returns its result.
func (f *firefox) command(method string, params any) (json.RawMessage, error) {
	f.last++
	if err := f.conn.SetDeadline(time.Now().Add(wait.Limit)); err != nil {
		return nil, err
	}
	if err := websocket.JSON.Send(f.conn, map[string]any{"id": f.last, "method": method, "params": params}); err != nil {
		return nil, err
	}
	for {
		var answer struct {
			ID             int
			Error, Message string
			Result         json.RawMessage
		}
		if err := websocket.JSON.Receive(f.conn, &answer); err != nil {
			return nil, err
		}
		if answer.ID != f.last {
			continue // an event
		}
		if answer.Error != "" {
			return nil, fmt.Errorf("%s: %s: %s", method, answer.Error, answer.Message)
		}
		return answer.Result, nil
	}
}

func (f *firefox) do(method string, params, result any) {
	f.t.Helper()
	text, err := f.command(method, params)
	if err == nil && result != nil {
		err = json.Unmarshal(text, result)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// evaluate returns the text that a JavaScript expression results in.
func (f *firefox) evaluate(expression string) (string, error) {
	text, err := f.command("script.evaluate", map[string]any{"expression": expression, "target": map[string]any{"context": f.context}, "awaitPromise": false})
	var value struct{ Result struct{ Value string } }
	if err == nil {
		_ = json.Unmarshal(text, &value) // fails for other values
	}
	return value.Result.Value, err
}

// titled waits until the page has this title.
func (f *firefox) titled(want string) {
	f.t.Helper()
	wait.Until(f.t, "the page "+want, func() bool {
		title, err := f.evaluate("document.title + (document.readyState === 'complete' ? '' : '…')")
		return err == nil && title == want // an error is a page that is just being left
	})
}

// click presses the mouse on an element, and waits for nothing.
func (f *firefox) click(selector string) {
	f.t.Helper()
	at, err := f.evaluate(`(box => JSON.stringify({type: "pointerMove", x: Math.round(box.x + box.width / 2), y: Math.round(box.y + box.height / 2)}))
		((element => (element.scrollIntoView({block: "center"}), element.getBoundingClientRect()))(document.querySelector('` + selector + `')))`)
	if err != nil {
		f.t.Fatal(err)
	}
	f.do("input.performActions", map[string]any{"context": f.context, "actions": []any{map[string]any{"type": "pointer", "id": "mouse", "actions": []any{
		json.RawMessage(at), map[string]any{"type": "pointerDown", "button": 0}, map[string]any{"type": "pointerUp", "button": 0},
	}}}}, nil)
}

// fill enters a text.
func (f *firefox) fill(selector, text string) {
	f.t.Helper()
	if _, err := f.evaluate(fmt.Sprintf("document.querySelector('%s').value = %q", selector, text)); err != nil {
		f.t.Fatal(err)
	}
}

// TestFirefoxTwice is TestChromiumTwice in another browser.
func TestFirefoxTwice(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ first, second, page, outcome string }{
		"allow":             {string(allowButton), string(allowButton), "Back at the partner", "code"},
		"deny":              {string(denyButton), string(denyButton), "Back at the partner", "error"},
		"allow, then deny":  {string(allowButton), string(denyButton), "You’ve already decided · Activity Connect", ""},
		"cancel at sign-in": {string(cancelButton), string(cancelButton), "Back at the partner", "error"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, limits)
			h := f.hasty()
			partner := httptest.NewTLSServer(partnerSite(f))
			t.Cleanup(partner.Close)
			browser := openFirefox(t, map[string]string{
				serviceHost: f.server.Listener.Addr().String(), partnerHost: partner.Listener.Addr().String(), partnerAppHost: partner.Listener.Addr().String(),
			})
			browser.do("browsingContext.navigate", map[string]any{"context": browser.context, "url": "https://" + partnerHost + "/connect", "wait": "complete"}, nil)
			browser.click("a")
			browser.titled("Sign in to connect Stride & Co · Activity Connect")
			if name != "cancel at sign-in" {
				browser.fill(string(emailField), email)
				browser.click(string(mainButton))
				code := f.post.Next(t).Code
				browser.titled("Enter your code to connect Stride & Co · Activity Connect")
				browser.fill(string(codeField), code)
				browser.click(string(mainButton))
				browser.titled("Let Stride & Co see your activity? · Activity Connect")
			}
			browser.click(test.first)
			wait.For(t, "the first decision", h.decided)
			browser.click(test.second)
			browser.titled(test.page)
			location, err := browser.evaluate("location.href")
			if err != nil || !strings.Contains(location, cmp.Or(test.outcome, "/consent")) {
				t.Fatalf("at %s, %v", location, err)
			}
			if test.outcome == "code" {
				f.exchange(t, location)
			}
		})
	}
}
