package browser

import (
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"connect-svc/internal/oauth"
)

// authorize takes an authorization request (specification 4.2) and sends the browser to our own pages.
func (p *pages) authorize(w http.ResponseWriter, r *http.Request) error {
	secret, had := secretOf(r)
	if !had {
		secret = newSecret()
	}
	url := len("https://") + len(r.Host) + len(r.RequestURI)
	id, err := p.OAuth.Authorize(r.Context(), r.URL.RawQuery, url, secret.hash())
	if err != nil {
		return err
	}
	secret.keep(w, p.RequestLifetime)
	seeOther(w, "/authorize/"+id.String()+"/sign-in")
	return nil
}

// pending is an authorization request under way in the browser that asks for a page of it.
type pending struct {
	oauth.Request
	id      uuid.UUID
	browser [32]byte
	base    string // of its paths
}

func (p *pages) pending(r *http.Request) (pending, error) {
	id, err := uuid.Parse(chi.URLParam(r, "request"))
	if err != nil || id.String() != chi.URLParam(r, "request") {
		return pending{}, errNotFound
	}
	secret, ok := secretOf(r)
	if !ok {
		return pending{}, oauth.ErrRequestEnded
	}
	request, err := p.OAuth.Request(r.Context(), id, secret.hash())
	if err != nil {
		return pending{}, err
	}
	return pending{request, id, secret.hash(), "/authorize/" + id.String()}, nil
}

// seeOther sends the browser on with a GET.
func seeOther(w http.ResponseWriter, location string) {
	w.Header().Set("Location", location)
	w.WriteHeader(http.StatusSeeOther)
}
