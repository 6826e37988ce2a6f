package pages

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// hasty is a fixture whose first decision is made and not answered before the second one has been: the answers of a service that is a little
// slow, to somebody who clicks twice.
type hasty struct {
	decided, again chan struct{}
}

// hasty changes the fixture before a browser opens its pages.
func (f *fixture) hasty() hasty {
	h := hasty{make(chan struct{}), make(chan struct{})}
	pages := f.server.Config.Handler
	first := make(chan struct{}, 1)
	first <- struct{}{}
	f.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/consent") {
			pages.ServeHTTP(w, r)
			return
		}
		select {
		case <-first:
			answer := httptest.NewRecorder()
			pages.ServeHTTP(answer, r)
			close(h.decided)
			<-h.again
			for name, values := range answer.Header() {
				w.Header()[name] = values
			}
			w.WriteHeader(answer.Code)
		default:
			defer close(h.again)
			pages.ServeHTTP(w, r)
		}
	})
	return h
}

// TestChromiumTwice: somebody who clicks twice gets to the partner, with a code that works. Somebody who clicks on both buttons is told that the request was decided.
func TestChromiumTwice(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		first, second chromedp.CSS
		page          string
		outcome       string
	}{
		"allow":             {allowButton, allowButton, "Back at the partner", "code"},
		"deny":              {denyButton, denyButton, "Back at the partner", "error"},
		"allow, then deny":  {allowButton, denyButton, "You’ve already decided · Activity Connect", ""},
		"deny, then allow":  {denyButton, allowButton, "You’ve already decided · Activity Connect", ""},
		"cancel at sign-in": {cancelButton, cancelButton, "Back at the partner", "error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScreen(t)
			h := s.hasty()
			s.arrive(t)
			if name != "cancel at sign-in" {
				s.signIn(t)
			}
			var at struct{ X, Y float64 } // chromedp finds no element while the page waits for its answer
			s.Evaluate(`(box => ({X: box.x + box.width / 2, Y: box.y + box.height / 2}))(document.querySelector('`+string(test.second)+`').getBoundingClientRect())`, &at)
			s.Do(chromedp.Click(test.first))
			wait.For(t, "the first decision", h.decided)
			s.Do(chromedp.MouseClickXY(at.X, at.Y))
			s.WaitTitle(test.page)
			if test.outcome != "" {
				s.isBack(t, test.outcome)
			}
			if test.outcome == "code" {
				s.exchange(t, s.Location())
			}
			if n := pgtest.Value[int](t, s.DB, "select count(*)::int from audit_log where action like 'consent.%'"); n > 1 {
				t.Errorf("%d decisions in the audit log", n)
			}
		})
	}
}

// TestChromiumDoubleClick: a real double click, with whatever happens to be first.
func TestChromiumDoubleClick(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	s.arrive(t)
	s.signIn(t)
	s.Do(chromedp.DoubleClick(allowButton))
	s.WaitTitle("Back at the partner")
	if tokens := s.exchange(t, s.Location()); tokens.Scopes != scope.All {
		t.Errorf("scopes %s", tokens.Scopes)
	}
	s.isClean(t)
}
