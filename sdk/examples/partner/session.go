package partner

import (
	"crypto/rand"
	"net/http"
	"strings"
)

const cookieName = "__Host-stride_club"

// session finds or begins the session of the browser, and returns its member. A real partner has its own sign-in here.
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
	// Lax, not strict: the redirect from the service is a navigation from another site.
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: session + "." + member, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}
