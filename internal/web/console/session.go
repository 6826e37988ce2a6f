package console

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"path"
	"strings"

	"connect-svc/internal/actor"
	"connect-svc/internal/operators"
	"connect-svc/internal/telemetry"
	"connect-svc/internal/web/site"
)

var keyEncoding = base64.RawURLEncoding.Strict()

// cookie of the session. SameSite is Strict: no other page leads into the console, and none sends its forms. Browsers accept the
// prefix __Host- only over TLS.
func cookie(r *http.Request, key []byte, lifetime int) *http.Cookie {
	one := &http.Cookie{ //nolint:gosec // Secure wherever the listener has TLS; browsers keep no such cookie of another
		Name: "connect-console", Value: keyEncoding.EncodeToString(key), Path: Path,
		MaxAge: lifetime, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
	if r.TLS != nil {
		one.Name, one.Path, one.Secure = "__Host-"+one.Name, "/", true
	}
	return one
}

// sessionKey reads the key of the session from its cookie.
func sessionKey(r *http.Request) (key operators.SessionKey, ok bool) {
	cookie, err := r.Cookie(cookie(r, nil, 0).Name)
	if err != nil {
		return key, false
	}
	value, err := keyEncoding.DecodeString(cookie.Value)
	if err != nil || len(value) != len(key) {
		return key, false
	}
	return operators.SessionKey(value), true
}

type holderKey struct{}

// holderOf is who is signed in.
func holderOf(r *http.Request) operators.Operator {
	holder, _ := r.Context().Value(holderKey{}).(operators.Operator)
	return holder
}

// session finds out who is signed in. Error: operators.ErrNoSession.
func (c *console) session(r *http.Request) (operators.Operator, error) {
	key, ok := sessionKey(r)
	if !ok {
		return operators.Operator{}, operators.ErrNoSession
	}
	return c.Sessions.Get(r.Context(), c.Operators, key)
}

// signedIn lets in who has a session, and has them act under their name. Others are led to the sign-in, from where they come back
// to the page that they asked for. A token for reading alone sends no form.
func (c *console) signedIn(next http.Handler) http.Handler {
	return c.page(func(w http.ResponseWriter, r *http.Request) error {
		holder, err := c.session(r)
		if errors.Is(err, operators.ErrNoSession) {
			query := url.Values{}
			if r.Method == http.MethodGet && r.URL.Path != Path {
				query.Set("to", r.URL.RequestURI())
			}
			if _, had := sessionKey(r); had {
				query.Set("ended", "")
			}
			return site.Redirect(strings.TrimSuffix(Path+"/sign-in?"+query.Encode(), "?"))
		}
		if err != nil {
			return err
		}
		telemetry.EventOf(r.Context()).Operator = holder.Name
		ctx := context.WithValue(actor.As(r.Context(), holder.Name), holderKey{}, holder)
		r = r.WithContext(ctx)
		if holder.ReadOnly && r.Method != http.MethodGet {
			c.fail(w, r, errReadOnly)
			return nil
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

// signInView is what the page for signing in shows.
type signInView struct {
	To    string // where to go then
	Wrong bool
	Ended bool // a session has ended
	Out   bool // somebody has just signed out
	Token string
}

func (c *console) showSignIn(w http.ResponseWriter, r *http.Request) error {
	if _, err := c.session(r); err == nil {
		return site.Redirect(Path)
	} else if !errors.Is(err, operators.ErrNoSession) {
		return err
	}
	query := r.URL.Query()
	c.site.Write(w, r, http.StatusOK, "sign-in", view{X: signInView{
		To: within(query.Get("to")), Ended: query.Has("ended"), Out: query.Has("signed-out"), Token: c.Token,
	}})
	return nil
}

// signIn starts a session for the holder of a token. Its key is always a new one, whatever the browser had.
func (c *console) signIn(w http.ResponseWriter, r *http.Request) error {
	form, err := site.ReadForm(w, r, "token", "to")
	if err != nil {
		return err
	}
	key, holder, err := c.Sessions.Start(r.Context(), c.Operators, form["token"])
	if errors.Is(err, operators.ErrNoToken) {
		if err := c.Audit.RecordFailedSignIn(r.Context(), c.Now(), c.TrustedProxies.Of(r).String()); err != nil {
			return err
		}
		telemetry.EventOf(r.Context()).Code = "unauthorized" // as the operator API calls it
		c.site.Write(w, r, http.StatusUnprocessableEntity, "sign-in", view{X: signInView{To: within(form["to"]), Wrong: true}})
		return nil
	}
	if err != nil {
		return err
	}
	telemetry.EventOf(r.Context()).Operator = holder.Name
	if old, had := sessionKey(r); had {
		if _, err := c.Sessions.End(r.Context(), c.Operators, old); err != nil {
			return err
		}
	}
	http.SetCookie(w, cookie(r, key[:], int(operators.SessionLifetime.Seconds())))
	return site.Redirect(within(form["to"]))
}

// signOut ends the session, if there still is one.
func (c *console) signOut(w http.ResponseWriter, r *http.Request) error {
	if _, err := site.ReadForm(w, r); err != nil {
		return err
	}
	if key, had := sessionKey(r); had {
		holder, err := c.Sessions.End(r.Context(), c.Operators, key)
		if err != nil {
			return err
		}
		telemetry.EventOf(r.Context()).Operator = holder.Name
	}
	http.SetCookie(w, cookie(r, nil, -1))
	return site.Redirect(Path + "/sign-in?signed-out")
}

// within is an address of the console as it was given, and its first page where it is another: nobody is led away from here.
func within(address string) string {
	to, err := url.Parse(address)
	if err != nil || to.Scheme != "" || to.Host != "" || to.User != nil || path.Clean(to.Path) != to.Path || !Serves(to.Path) {
		return Path
	}
	return (&url.URL{Path: to.Path, RawQuery: to.RawQuery}).String()
}
