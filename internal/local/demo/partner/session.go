package partner

import (
	"crypto/rand"
	"net/http"
)

const (
	cookieName   = "__Host-stride_club"
	mostSessions = 1000
)

// session finds the session of the browser and its member, or begins one. A partner would have a sign-in of its own here.
func (p *Partner) session(w http.ResponseWriter, r *http.Request) (id string, member Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cookie, err := r.Cookie(cookieName); err == nil {
		if member, found := p.member(p.sessions[cookie.Value]); found {
			return cookie.Value, member
		}
	}
	if len(p.sessions) >= mostSessions {
		clear(p.sessions)
	}
	id, member = rand.Text(), p.config.Members[0]
	p.sessions[id] = member.Key
	// Lax, not strict: the way back from the service is a navigation that another site began.
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: id, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode})
	return id, member
}

func (p *Partner) switchMember(w http.ResponseWriter, r *http.Request) {
	id, _ := p.session(w, r)
	if member, found := p.member(r.PostFormValue("member")); found {
		p.setMember(id, member.Key)
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (p *Partner) setMember(session, member string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sessions[session] = member
}
