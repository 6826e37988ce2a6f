package console

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"path"
	"strings"

	"connect-svc/internal/admin/operators"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/telemetry"
)

var keyEncoding = base64.RawURLEncoding.Strict()

// cookie returns the session's cookie. It is SameSite=Strict, so that no other site can open the console's pages or send its forms.
// Browsers accept the prefix __Host- only over TLS.
func cookie(r *http.Request, key []byte, lifetime int) *http.Cookie {
	c := &http.Cookie{ //nolint:gosec // Secure wherever the listener has TLS; browsers keep no such cookie of another
		Name: "connect-console", Value: keyEncoding.EncodeToString(key), Path: Path,
		MaxAge: lifetime, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
	if r.TLS != nil {
		c.Name, c.Path, c.Secure = "__Host-"+c.Name, "/", true
	}
	return c
}

// sessionKey reads the session's key from the cookie.
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

// session reads the session of a request. Error: operators.ErrNoSession.
func (c *console) session(r *http.Request) (operators.Operator, error) {
	key, ok := sessionKey(r)
	if !ok {
		return operators.Operator{}, operators.ErrNoSession
	}
	return c.Sessions.Get(r.Context(), c.Operators, key)
}

// operatorOf returns the operator who asks. It redirects others to the sign-in, which returns to the requested page.
func (c *console) operatorOf(r *http.Request) (principal, error) {
	holder, err := c.session(r)
	if errors.Is(err, operators.ErrNoSession) {
		query := url.Values{}
		if r.Method == http.MethodGet && r.URL.Path != Path {
			query.Set("to", r.URL.RequestURI())
		}
		if _, had := sessionKey(r); had {
			query.Set("ended", "")
		}
		return principal{}, site.Redirect(strings.TrimSuffix(Path+"/sign-in?"+query.Encode(), "?"))
	}
	return principal{Name: holder.Name, ReadOnly: holder.ReadOnly}, err
}

// signInView is the sign-in page.
type signInView struct {
	To    string // the page to open after it
	Wrong bool
	Ended bool // a session has ended
	Out   bool // the operator has just signed out
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
		To: safeReturnPath(query.Get("to")), Ended: query.Has("ended"), Out: query.Has("signed-out"), Token: c.Token,
	}})
	return nil
}

// signIn starts a session for the holder of a token. The session always gets a new key.
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
		telemetry.EventOf(r.Context()).Code = "unauthorized" // the operator API's code
		c.site.Write(w, r, http.StatusUnprocessableEntity, "sign-in", view{X: signInView{To: safeReturnPath(form["to"]), Wrong: true}})
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
	return site.Redirect(safeReturnPath(form["to"]))
}

// signOut ends the session, if there is one.
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

// safeReturnPath returns a given address if it belongs to the console, and otherwise the first page, so that no link leads away.
func safeReturnPath(address string) string {
	to, err := url.Parse(address)
	if err != nil || to.Scheme != "" || to.Host != "" || to.User != nil || path.Clean(to.Path) != to.Path || !site.IsBelow(to.Path, Path) {
		return Path
	}
	return (&url.URL{Path: to.Path, RawQuery: to.RawQuery}).String()
}
