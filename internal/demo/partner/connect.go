package partner

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"time"
)

// attempt is one authorization under way. It belongs to the session that began it, works once and not for long
// (specification 5.3).
type attempt struct {
	session  string
	member   string
	verifier string
	ends     time.Time
}

// attemptLifetime is that of the service's authorization request, and a little for the way back.
const attemptLifetime = 11 * time.Minute

// connect sends the browser to the service.
func (p *Partner) connect(w http.ResponseWriter, r *http.Request) {
	id, member := p.session(w, r)
	state, verifier := random(), random()
	p.mu.Lock()
	for other, a := range p.attempts {
		if p.now().After(a.ends) {
			delete(p.attempts, other)
		}
	}
	p.attempts[state] = attempt{session: id, member: member.Key, verifier: verifier, ends: p.now().Add(attemptLifetime)}
	p.mu.Unlock()

	challenge := sha256.Sum256([]byte(verifier))
	query := url.Values{
		"client_id":             {p.config.ClientID},
		"redirect_uri":          {p.callback()},
		"response_type":         {"code"},
		"scope":                 {scopes},
		"state":                 {state},
		"code_challenge":        {base64.RawURLEncoding.EncodeToString(challenge[:])},
		"code_challenge_method": {"S256"},
	}
	p.tell(member.Key, "Sent your browser to Activity Connect, to ask you. A fresh secret binds the answer to this browser.")
	http.Redirect(w, r, p.config.Issuer+"/oauth/authorize?"+query.Encode(), http.StatusSeeOther)
}

// finish takes the browser back, with a code or with a no.
func (p *Partner) finish(w http.ResponseWriter, r *http.Request) {
	id, _ := p.session(w, r)
	query := r.URL.Query()
	p.mu.Lock()
	a, found := p.attempts[query.Get("state")]
	if found = found && a.session == id; found {
		delete(p.attempts, query.Get("state")) // it works once, whatever comes of it
	}
	found = found && p.now().Before(a.ends)
	if found {
		p.sessions[id].member = a.member
	}
	p.mu.Unlock()
	if !found {
		p.show(w, r, http.StatusBadRequest, "This answer belongs to no question that this browser asked, or it came too late. "+
			"Nothing was connected. Start again with Connect.")
		return
	}
	switch {
	case query.Get("code") != "":
		text, err := p.exchange(r.Context(), a.member, query.Get("code"), a.verifier)
		if err != nil {
			text = sentence(err)
		}
		p.tell(a.member, "%s", text)
	case query.Get("error") == "access_denied":
		p.tell(a.member, "You came back without agreeing. Nothing was connected, and nothing can be read.")
	default:
		p.tell(a.member, "Activity Connect sent you back without an answer. Nothing was connected.")
	}
	http.Redirect(w, r, "/", http.StatusSeeOther) // the code does not stay in the address bar
}

// random has 256 random bits and fits a state as well as a code verifier.
func random() string {
	var bytes [32]byte
	_, _ = rand.Read(bytes[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(bytes[:])
}
