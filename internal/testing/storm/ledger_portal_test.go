//go:build faults

package storm

import (
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// portalLedger has the links to a partner's own pages, which one actor makes, opens and ends: one browser opens a link, once, and its session
// lasts until it is ended.
type portalLedger struct {
	links       []*portalLink
	maybe       int // links whose making had no answer
	opened      int
	used, ended int // looks at sessions that had to work, and at links and sessions that had to be over
}

// portalLink is a link, and then a session.
type portalLink struct {
	id      string
	path    string
	browser *browser // that opened it
	unknown bool     // it may have been opened, or ended
	over    bool
}

// pages is a browser without cookies, of somebody who knows no API.
func (s *storm) pages() *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.Error(err)
	}
	return &browser{storm: s, client: &http.Client{
		Transport: s.plain, Jar: jar, Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// page sends a request of a page, and a form if there is one.
func (b *browser) page(method, path string, form url.Values) reply {
	request := b.request(method, path, form)
	request.Header.Set("Origin", baseURL)
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	return b.send("portal", b.client, request)
}

func portalOf(p *partner) string { return "/partners/" + p.id.String() }

// link makes a link for a partner's engineer; nil if that had no answer.
func (s *storm) link(p *partner) *portalLink {
	acknowledged := s.audit.ask("client.portal_link_created", nobody, p.id)
	got := s.operate("portal link", http.MethodPost, "/clients/"+p.id.String()+"/portal-links", map[string]any{"name": "kim"})
	var made struct {
		URL     string
		Session struct {
			ID string `json:"session_id"`
		}
	}
	switch {
	case got.status == http.StatusCreated && got.json(&made) == nil:
		acknowledged()
		return &portalLink{id: made.Session.ID, path: strings.TrimPrefix(made.URL, baseURL)}
	case !got.unknown():
		s.Errorf("a link to a partner's pages is answered %d %s", got.status, got.body)
	}
	return nil
}

// open has two browsers open a link at the same moment.
func (l *portalLink) open(s *storm, p *partner) (opened int) {
	acknowledged := s.audit.ask("client.portal_opened", nobody, p.id)
	var both sync.WaitGroup
	browsers, answers := [2]*browser{s.pages(), s.pages()}, [2]reply{}
	for n, b := range browsers {
		both.Go(func() { answers[n] = b.page(http.MethodPost, l.path, url.Values{}) })
	}
	both.Wait()
	for n, got := range answers {
		switch {
		case got.status == http.StatusSeeOther:
			acknowledged()
			l.browser = browsers[n]
			opened++
		case got.unknown():
			l.unknown = true
		}
	}
	if l.browser != nil {
		l.unknown = false
	}
	if opened > 1 || opened == 0 && !l.unknown {
		s.Errorf("%d of two browsers have opened a link: they are answered %d and %d", opened, answers[0].status, answers[1].status)
	}
	return opened
}

// works looks at a session, which must work if it is not over, and must not if it is. It reports whether that was seen.
func (l *portalLink) works(s *storm, p *partner) (seen bool) {
	got := l.browser.page(http.MethodGet, portalOf(p), nil)
	if l.unknown || got.unknown() {
		return false
	}
	if (got.status == http.StatusOK) == l.over {
		s.Errorf("a session of a partner's pages that is over: %v, is answered %d", l.over, got.status)
	}
	return true
}

// engineer acts on links and sessions of a partner.
func (s *storm) engineer(chance *rand.Rand) {
	defer await(s.stop, between(chance, 0.2, 1))
	l := s.portal
	if made := s.link(s.guided); made == nil {
		l.maybe++
	} else {
		l.links = append(l.links, made)
		if chance.IntN(4) > 0 { // the others are opened after the storm
			l.opened += made.open(s, s.guided)
		}
	}
	alive := slices.DeleteFunc(slices.Clone(l.links), func(one *portalLink) bool { return one.over })
	if len(alive) == 0 {
		return
	}
	one := alive[chance.IntN(len(alive))]
	if one.browser != nil && one.works(s, s.guided) {
		l.used++
	}
	if chance.IntN(2) > 0 && len(alive) < 20 { // a partner may have a hundred
		return
	}
	acknowledged := s.audit.ask("client.portal_session_ended", nobody, s.guided.id)
	got := s.operate("end portal session", http.MethodDelete, "/clients/"+s.guided.id.String()+"/portal-sessions/"+one.id, nil)
	switch {
	case got.status == http.StatusNoContent:
		acknowledged()
		one.over, one.unknown = true, false
	case got.unknown():
		one.unknown = true
	case got.status == http.StatusNotFound && one.unknown: // an answer was lost
		one.over, one.unknown = true, false
	default:
		s.Errorf("the end of a session is answered %d", got.status)
	}
}

// checkPortal: what was acknowledged is there, once, and what was ended is not.
func (s *storm) checkPortal() {
	s.Helper()
	var list struct {
		Data []struct {
			ID string `json:"session_id"`
		}
	}
	if got := s.operate("portal sessions", http.MethodGet, "/clients/"+s.guided.id.String()+"/portal-sessions", nil); got.json(&list) != nil {
		s.Fatalf("the sessions of a partner's pages are answered %d", got.status)
	}
	there := map[string]bool{}
	for _, row := range list.Data {
		there[row.ID] = true
	}
	unknown := len(there)
	for _, one := range s.portal.links {
		if there[one.id] {
			unknown--
		}
		if !one.unknown && there[one.id] == one.over {
			s.Errorf("a link or a session that is over: %v, is listed: %v", one.over, there[one.id])
		}
		if one.browser == nil && !one.unknown && !one.over { // nobody has opened it
			s.portal.opened += one.open(s, s.guided)
		}
		if one.browser != nil && one.works(s, s.guided) {
			if one.over {
				s.portal.ended++
			} else {
				s.portal.used++
			}
		}
	}
	if unknown > s.portal.maybe {
		s.Errorf("%d links or sessions are there that nobody made", unknown-s.portal.maybe)
	}
	s.sum.fact("%d links to a partner's pages, %d of them opened: %d looks at sessions had to work, %d had to fail", len(s.portal.links), s.portal.opened, s.portal.used, s.portal.ended)
}
