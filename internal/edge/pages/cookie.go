package pages

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/edge/pages/chromium"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/locale"
	"github.com/google/uuid"
)

// Names of cookies. Browsers accept the prefix __Host- only for this host, over TLS and for all paths.
const (
	browserCookie = "__Host-connect-browser" // secret of the browser, for authorization requests
	signInCookie  = "__Host-connect-sign-in" // id of a sign-in to the account pages, sealed
	sessionCookie = "__Host-connect-account" // key of a session of the account pages, sealed
	knownCookie   = "__Host-connect-known"   // keys of former sign-ins in this browser, of several users
)

// Names of the cookies of an authorization request, which browsers send to its own paths alone: several requests may be under way in
// the tabs of a browser, and each is as large as the partner's state. Without the prefix __Host-, which they cannot have, another
// host of the same site could set them: so each is sealed and bound to the secret in browserCookie.
const (
	askedCookie          = "__Secure-connect-request" // what was asked for, sealed, and that it was decided; see also authorizePath
	requestSessionCookie = "__Secure-connect-session" // the sign-in to it, sealed
	typedCookie          = "__Secure-connect-typed"   // that an address was typed, here, for the account pages or, for /, in a sign-in: it proves nothing
)

// maxRequests is how many requests may be under way in a browser, whose cookies of a host are bounded: so many navigations to authorizePath would
// otherwise push out the others.
const maxRequests = 6

// authorizePath is where requests begin. Its own askedCookie names the newest ones but the browser's first, latest first, as the cookies of their
// paths are not sent there.
const authorizePath = "/oauth/authorize"

// keepRequest gives the browser the cookie of a new request. If there were others before, it removes the cookies of the one that is one too many.
func keepRequest(w http.ResponseWriter, r *http.Request, asked oauth.SealedRequest, isFirst bool, lifetime time.Duration) error {
	setCookieAt(w, requestPath(asked.ID), askedCookie, asked.Sealed, lifetime)
	if isFirst { // most browsers make one, and get two cookies
		return nil
	}
	ids, known := []uuid.UUID{asked.ID}, cookieValue(r, askedCookie)
	for earlier := range slices.Chunk(known[:min(len(known), maxRequests*len(asked.ID))], len(asked.ID)) {
		id, err := uuid.FromBytes(earlier)
		switch {
		case err != nil || id == asked.ID:
		case len(ids) < maxRequests:
			ids = append(ids, id)
		default:
			for _, name := range []string{askedCookie, requestSessionCookie, typedCookie} {
				setCookieAt(w, requestPath(id), name, "", -time.Second)
			}
		}
	}
	value, err := binary.Append(nil, binary.BigEndian, ids)
	if err != nil {
		return err
	}
	setCookieAt(w, authorizePath, askedCookie, encoded(value), lifetime)
	return nil
}

// requestPath is where the cookies of a request are sent.
func requestPath(id uuid.UUID) string { return "/authorize/" + id.String() }

// secret identifies a browser: 256 random bits.
type secret [32]byte

var secretEncoding = base64.RawURLEncoding.Strict()

// hash is what the domain knows of the secret.
func (s secret) hash() [sha256.Size]byte { return sha256.Sum256(s[:]) }

// secretIn reads the secret in the named cookie.
func secretIn(r *http.Request, name string) (s secret, ok bool) {
	value := cookieValue(r, name)
	if len(value) != len(s) {
		return s, false
	}
	return secret(value), true
}

// cookieValue decodes a cookie; nil if there is none, or it is not one of ours.
func cookieValue(r *http.Request, name string) []byte {
	value, err := secretEncoding.DecodeString(cookieText(r, name))
	if err != nil {
		return nil
	}
	return value
}

// cookieText returns a cookie; empty if there is none.
func cookieText(r *http.Request, name string) string {
	cookie, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	return cookie.Value
}

// decided or denied follows what was asked for in askedCookie, after a dot, once the user has decided. With it the pages of the request say
// that it was decided.
const (
	decided = "decided"
	denied  = "denied"
)

// maxKnown is how many users' keys a browser keeps.
const maxKnown = 4

// knownKeys reads the keys of former sign-ins in this browser.
func knownKeys(r *http.Request) []account.BrowserKey {
	value := cookieValue(r, knownCookie)
	keys := make([]account.BrowserKey, len(value)/binary.Size(account.BrowserKey{}))
	if len(keys) > maxKnown || binary.Size(keys) != len(value) {
		return nil
	}
	_, _ = binary.Decode(value, binary.BigEndian, keys) // has the size
	return keys
}

// remember gives the browser a key for the user who has just signed in. Error: account.ErrNoSignIn if that has ended since, as the user's
// address has changed, or the user was deleted.
func (p *pages) remember(w http.ResponseWriter, r *http.Request, signIn uuid.UUID, key account.BrowserKey) error {
	keys := knownKeys(r)
	if err := p.Accounts.RememberBrowser(r.Context(), signIn, key, keys, r.UserAgent(), p.site.Locale(r).Tag); err != nil {
		return err
	}
	keys = slices.DeleteFunc(keys, func(other account.BrowserKey) bool { return other.UserID == key.UserID })
	keys = append([]account.BrowserKey{key}, keys[:min(len(keys), maxKnown-1)]...)
	value, err := binary.Append(nil, binary.BigEndian, keys)
	if err != nil {
		return err
	}
	setCookie(w, knownCookie, encoded(value), account.BrowserLifetime)
	setCookie(w, typedCookie, "1", account.SessionLifetime)
	return nil
}

// setCookie sets a cookie. SameSite is Lax and not Strict, because users come by a link or a redirect of the partner's
// site.
func setCookie(w http.ResponseWriter, name, value string, lifetime time.Duration) {
	setCookieAt(w, "/", name, value, lifetime)
}

// setCookieAt sets a cookie for a path and what is below it.
func setCookieAt(w http.ResponseWriter, path, name, value string, lifetime time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: value, Path: path,
		MaxAge: int(lifetime.Seconds()), Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

func dropCookie(w http.ResponseWriter, name string) { setCookie(w, name, "", -time.Second) }

// encoded is a value that browsers keep as it is.
func encoded(value []byte) string { return secretEncoding.EncodeToString(value) }

// plan is how the pages of the preview are measured: each at all widths, all sizes of letters, and in all schemes.
type plan struct {
	Pages      []string // paths, without the first slash
	Widths     []int    // in pixels
	Scales     []int    // of letters, in percent
	Schemes    []string
	TermsWidth int // at which what a user consents to must be within the height
	Height     int
}

// everything is the plan for [Check]. 390 x 664 is what Safari shows with its bars on a phone of today.
func everything(tags []string) plan {
	p := plan{Widths: []int{320, 390, 1280}, Scales: []int{100, 200}, Schemes: []string{"light", "dark"}, TermsWidth: 390, Height: 664}
	for _, tag := range tags {
		for _, s := range samples() {
			p.Pages = append(p.Pages, tag+"/"+s.Name)
		}
		for _, email := range account.Samples {
			p.Pages = append(p.Pages, tag+"/"+email.Name)
		}
	}
	return p
}

// maxCheck is the longest time that a check takes.
const maxCheck = 10 * time.Minute

// Check measures every page and email of a preview in a browser of this machine: in every language, at 320, 390 and 1280 px, with
// letters of 100 and 200 %, in light and in dark. It returns what is wrong, and how many pages it has measured. Errors: see
// [chromium.Show].
func Check(ctx context.Context, design brand.Brand, texts *locale.Catalogue) (problems []string, measured int, err error) {
	if texts == nil {
		texts = locale.Default()
	}
	p := everything(texts.Tags())
	problems, err = check(ctx, design, texts, p)
	return problems, len(p.Pages), err
}

func check(ctx context.Context, design brand.Brand, texts *locale.Catalogue, p plan) (problems []string, err error) {
	preview, err := Preview(design, texts)
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, maxCheck, errors.New("the browser takes longer than 10 minutes"))
	defer cancel()
	overflows, end := make(chan string), make(chan string, 1)
	sent := func(to chan string) http.HandlerFunc {
		return func(_ http.ResponseWriter, r *http.Request) {
			text, _ := io.ReadAll(io.LimitReader(r.Body, 4<<10))
			select {
			case to <- strings.Join(strings.Fields(string(text)), " "):
			case <-ctx.Done():
			}
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/", preview)
	mux.HandleFunc("GET /check/plan", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(p) })
	mux.HandleFunc("GET /check/faults.js", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, chromium.Faults) })
	mux.Handle("POST /check/found", sent(overflows))
	mux.Handle("POST /check/end", sent(end))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	defer server.Close()
	go func() { _ = server.Serve(listener) }() // until it is closed

	ended := make(chan error, 1)
	go func() { ended <- chromium.Show(ctx, fmt.Sprintf("http://%s/preview/check.html", listener.Addr())) }()
	for {
		select {
		case problem := <-overflows:
			problems = append(problems, problem)
		case fault := <-end:
			cancel()
			if err := <-ended; err != nil || fault != "" {
				return nil, cmp.Or(err, fmt.Errorf("the pages cannot be measured: %s", fault))
			}
			slices.Sort(problems)
			return problems, nil
		case err := <-ended:
			if err == nil {
				err = context.Cause(ctx)
			}
			return nil, err
		}
	}
}
