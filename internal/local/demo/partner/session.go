package partner

import (
	"crypto/rand"
	"net/http"
	"strings"
)

const cookieName = "__Host-stride_club"

// session finds the session of the browser and its member, or begins one. A partner would have a sign-in of its own here.
func (p *Partner) session(w http.ResponseWriter, r *http.Request) (id string, member Member) {
	if cookie, err := r.Cookie(cookieName); err == nil {
		id, key, _ := strings.Cut(cookie.Value, ".")
		if member, found := p.member(key); found {
			return id, member
		}
	}
	id, member = rand.Text(), p.config.Members[0]
	setMember(w, id, member.Key)
	return id, member
}

func (p *Partner) switchMember(w http.ResponseWriter, r *http.Request) {
	id, _ := p.session(w, r)
	if member, found := p.member(r.PostFormValue("member")); found {
		setMember(w, id, member.Key)
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func setMember(w http.ResponseWriter, session, member string) {
	// Lax, not strict: the way back from the service is a navigation that another site began.
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: session + "." + member, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}
