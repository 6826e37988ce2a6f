package partner

import (
	"crypto/rand"
	"net/http"
	"time"
)

// session is one browser. A company would have a sign-in of its own here.
type session struct {
	member   string
	lastSeen time.Time
	notice   *step // what went wrong just now, for the next page
}

const (
	cookieName      = "__Host-stride_club"
	sessionLifetime = 24 * time.Hour
	mostSessions    = 1000
)

// session finds the session of the browser and its member, or begins one.
func (p *Partner) session(w http.ResponseWriter, r *http.Request) (id string, member Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if cookie, err := r.Cookie(cookieName); err == nil && p.sessions[cookie.Value] != nil {
		s := p.sessions[cookie.Value]
		s.lastSeen = now
		member, _ = p.member(s.member)
		return cookie.Value, member
	}
	for id, s := range p.sessions {
		if now.Sub(s.lastSeen) > sessionLifetime || len(p.sessions) >= mostSessions {
			delete(p.sessions, id)
		}
	}
	id, member = rand.Text(), p.config.Members[0]
	p.sessions[id] = &session{member: member.Key, lastSeen: now}
	// Lax, not strict: the way back from the service is a navigation that another site began.
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: id, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode})
	return id, member
}

func (p *Partner) switchMember(w http.ResponseWriter, r *http.Request) {
	id, _ := p.session(w, r)
	if member, found := p.member(r.PostFormValue("member")); found {
		p.mu.Lock()
		p.sessions[id].member = member.Key
		p.mu.Unlock()
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// takeNotice is what went wrong since the last page.
func (p *Partner) takeNotice(session string) *step {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sessions[session]
	if s == nil {
		return nil
	}
	notice := s.notice
	s.notice = nil
	return notice
}
