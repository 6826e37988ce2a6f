//go:build faults

package storm

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"

	"connect-svc/internal/foundation/scope"
)

// changeLedger has the changes that a partner's engineer requests, one after the other: an approved one is made once, a refused one never, and the
// partner's contact hears of each answer.
type changeLedger struct {
	session           *portalLink
	requested         int
	homepage          string // of the last approved request
	approved, refused int
}

const contact = "contact@partner.example"

var seenField = regexp.MustCompile(`name="seen" value="([0-9a-f]+)"`)

// wanted is the last request of the partner, as the operator sees it.
func (s *storm) wanted() (id, state, homepage string) {
	for s.Context().Err() == nil {
		got := s.operate("change request", http.MethodGet, "/clients/"+s.asking.id.String()+"/change-request", nil)
		var last struct {
			ID      string `json:"request_id"`
			State   string
			Changes []struct{ Field, After string }
		}
		switch {
		case got.status == http.StatusOK && got.json(&last) == nil:
			for _, change := range last.Changes {
				if change.Field == "homepage_url" {
					homepage = change.After
				}
			}
			return last.ID, last.State, homepage
		case got.status == http.StatusNotFound:
			return "", "", ""
		case !got.unknown():
			s.Errorf("a request for a change is answered %d", got.status)
			return "", "", ""
		}
		await(s.Context(), retry)
	}
	return "", "", ""
}

// requestChanges has an engineer request a new homepage, and the operator answer. Both ask until they know.
func (s *storm) requestChanges(chance *rand.Rand) {
	defer await(s.stop, between(chance, 0.3, 2))
	l := s.changes
	for l.session == nil || l.session.browser == nil {
		if l.session = s.link(s.asking); l.session != nil {
			l.session.open(s, s.asking)
		}
		if s.stop.Err() != nil {
			return
		}
	}
	l.requested++
	homepage := fmt.Sprintf("https://partner.example/%d", l.requested)
	acknowledged := s.audit.ask("client.change_requested", nobody, s.asking.id)
	id, state, wanted := "", "", ""
	for s.Context().Err() == nil {
		got := s.submit(homepage)
		if id, state, wanted = s.wanted(); wanted == homepage && state == "open" {
			break
		}
		if !got.unknown() {
			s.Errorf("a request for a change is answered %d, and the last one is %q for %q", got.status, state, wanted)
			return
		}
		await(s.Context(), retry)
	}
	acknowledged()
	verb, want, body := "approve", "approved", map[string]any{"request_id": id}
	if chance.IntN(3) == 0 {
		verb, want, body["answer"] = "refuse", "refused", "No."
	}
	answered := s.audit.ask("client.change_"+want, nobody, s.asking.id)
	changed := func() {}
	if want == "approved" {
		changed = s.audit.ask("client.updated", nobody, s.asking.id)
	}
	for s.Context().Err() == nil {
		got := s.operate(verb+" change", http.MethodPost, "/clients/"+s.asking.id.String()+"/change-request/"+verb, body)
		if got.status == http.StatusOK {
			break
		}
		if _, state, _ := s.wanted(); state == want {
			break
		} else if !got.unknown() {
			s.Errorf("%s of a request for a change is answered %d, and it is %s", verb, got.status, state)
			return
		}
		await(s.Context(), retry)
	}
	answered()
	changed()
	if want == "approved" {
		l.approved++
		l.homepage = homepage
	} else {
		l.refused++
	}
	s.holdHomepage()
}

// submit sends the form once.
func (s *storm) submit(homepage string) reply {
	path := portalOf(s.asking) + "/changes/request"
	form := s.changes.session.browser.page(http.MethodGet, path, nil)
	seen := seenField.FindSubmatch(form.body)
	if form.status != http.StatusOK || seen == nil {
		return form
	}
	fields := url.Values{
		"seen": {string(seen[1])}, "name": {"Asking"}, "callback": {callback}, "contact-email": {contact}, "homepage": {homepage}, "privacy-url": {""}, "terms-url": {""},
		"requests-per-minute": {"1000000"}, "burst": {"100000"}, "concurrent-reads": {"1000"}, "webhook-parallel": {"8"},
	}
	for _, name := range scope.All.Names() {
		fields.Set(name, "on")
	}
	return s.changes.session.browser.page(http.MethodPost, path, fields)
}

// holdHomepage: the partner has the homepage of the last request that was approved.
func (s *storm) holdHomepage() {
	got := s.operate("read client", http.MethodGet, "/clients/"+s.asking.id.String(), nil)
	var is struct {
		Homepage string `json:"homepage_url"`
	}
	if got.status == http.StatusOK && (got.json(&is) != nil || is.Homepage != s.changes.homepage) {
		s.Errorf("a partner has the homepage %q, and %q was approved last", is.Homepage, s.changes.homepage)
	}
}

func (s *storm) checkChanges() {
	s.Helper()
	s.holdHomepage()
	s.codes.mu.Lock()
	defer s.codes.mu.Unlock()
	answers := s.changes.approved + s.changes.refused
	if told := s.codes.of(contact).receipts; told < answers || told > mostEmails*answers {
		s.Errorf("a partner was told of %d answers, and got %d", told, answers)
	}
	s.sum.fact("%d requests for changes: %d approved, %d refused", s.changes.requested, s.changes.approved, s.changes.refused)
}
