package pages

import (
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/locale"
	"connect-svc/internal/foundation/work"
	"github.com/go-chi/chi/v5"
)

// view is the data of the templates. A page uses the fields that it needs; the rest are zero.
type view struct {
	Base    string // of the paths: /authorize/{request} or /account
	Partner partner
	Minutes int // that are left for an authorization, or that a session of the account pages lasts

	User         string        // who is shown a page with a decision
	Email        string        // as it was typed
	Problem      string        // what was wrong with the form, or why a request ended, by a name that the template knows
	Invalid      bool          // the form has a problem
	AttemptsLeft int           // of the code
	NoCodes      bool          // the link of the email alone works
	Denied       bool          // the user has decided against the request
	Link         string        // its path, or that of a receipt
	Over         bool          // there is nothing to end any more
	SentAgain    bool          // a new code was sent
	Left         time.Duration // of the code
	Wait         time.Duration // until another code can be asked for
	Restart      bool          // the request ends before

	News string // what has just happened: the query of the URL, of which the template knows some values

	Connections []connection      // of the user: all, or the one to be disconnected
	Browsers    []account.Browser // that the user has signed in with
	Gone        string            // name of the partner that was just disconnected
	Copy        bool              // offers a copy of the user's data

	Consent oauth.Consent
	Today   activity.Today

	Code string // of the error

	Preview  string         // the address to which a preview for an operator leads back; empty on a user's page
	Operator *locale.Locale // the operator's language, for a preview
}

// view holds what all pages of the request show.
func (p *pages) view(request pending) view {
	return view{Base: request.base, Partner: partner{Partner: request.Partner, Callback: request.CallbackURL}, Minutes: minutes(request.Left)}
}

// Visit is the kind of consent page, by the name that its texts have: mismatch, again if there is a connection, or consent.
func (v view) Visit() string {
	switch {
	case v.Consent.ScopeMismatch:
		return "mismatch"
	case v.Consent.State != "":
		return "again"
	}
	return "consent"
}

// read is a scope on the consent page. Change is what a mismatch does to it: new, gone or nothing.
type read struct{ Scope, Change string }

// Reads are the scopes of the request, and those that the connection has besides.
func (v view) Reads() (reads []read) {
	asked, current := v.Consent.Scopes.Names(), v.Consent.Current.Names()
	for _, name := range (v.Consent.Scopes | v.Consent.Current).Names() {
		entry := read{Scope: name}
		switch {
		case !slices.Contains(asked, name):
			entry.Change = "gone"
		case v.Consent.ScopeMismatch && !slices.Contains(current, name):
			entry.Change = "new"
		}
		reads = append(reads, entry)
	}
	return reads
}

// soFar lists the amounts of a day, such as 4,312 steps, 1 ride of 7.4 km. It is empty without any.
func soFar(language *locale.Locale, today activity.Today) string {
	var amounts []string
	if today.Steps != nil {
		amounts = append(amounts, language.Text("today.steps", "Count", *today.Steps, "Number", language.Number(*today.Steps)))
	}
	if today.Rides > 0 {
		amounts = append(amounts, language.Text("today.rides", "Count", today.Rides, "Number", language.Number(today.Rides),
			"Distance", language.Distance(today.RideMeters)))
	}
	if today.Meters != nil && (today.Rides == 0 || *today.Meters != today.RideMeters) {
		amounts = append(amounts, language.Text("today.distance", "Distance", language.Distance(*today.Meters)))
	}
	return language.List(amounts)
}

// partner is who asks for the authorization, or has a connection.
type partner struct {
	oauth.Partner
	Callback string // empty on the account pages
	logo     string // where it is served in a preview, or empty on the pages themselves
}

// LogoPath is where the partner's logo is served; empty where there is none.
func (p partner) LogoPath() string {
	if p.Logo == "" || p.logo != "" {
		return p.logo
	}
	return "/static/partners/" + p.ClientID.String() + "/" + p.Logo
}

// minutes rounds up, and is at least one.
func minutes(d time.Duration) int { return max(1, int(math.Ceil(d.Minutes()))) }

// languageCookie has the language that was chosen in this browser.
const languageCookie = "__Host-connect-language"

// languagePath is that of the form at the foot of each page.
const languagePath = accountBase + "/language"

// languageLifetime is the longest that browsers keep a cookie.
const languageLifetime = 400 * 24 * time.Hour

// inChosenLanguage replaces the browser's languages by the one that was chosen in it.
func (p *pages) inChosenLanguage(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tag := cookieText(r, languageCookie); slices.Contains(p.site.Texts.Tags(), tag) {
			r.Header.Set("Accept-Language", tag)
		}
		next.ServeHTTP(w, r)
	})
}

// chooseLanguage keeps a language in the browser, and leads back to the page with the form.
func (p *pages) chooseLanguage(router chi.Routes) site.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		form, err := site.ReadForm(w, r, "language")
		if err != nil {
			return err
		}
		if !slices.Contains(p.site.Texts.Tags(), form["language"]) {
			return site.ErrBadForm
		}
		setCookie(w, languageCookie, form["language"], languageLifetime)
		return site.Redirect(pageBefore(r, router))
	}
}

// pageBefore returns the page that a form was on, as the browser names it. If a GET does not lead there, because the page answered a form,
// it returns the first page of the same sign-in.
func pageBefore(r *http.Request, router chi.Routes) string {
	referer, err := url.Parse(r.Referer())
	if err != nil || referer.Path == "" {
		return accountBase
	}
	if router.Match(chi.NewRouteContext(), http.MethodGet, referer.Path) {
		return (&url.URL{Path: referer.Path, RawQuery: referer.RawQuery}).String()
	}
	before := chi.NewRouteContext()
	router.Match(before, http.MethodPost, referer.Path)
	if request := before.URLParam("request"); request != "" {
		return "/authorize/" + request + "/sign-in"
	}
	return accountBase
}

// caller decides in whose queue a request waits for the database. After a sign-in, to the account pages or to a request, it is the
// user's: the cookies that say so are sealed, and nobody else has one. The same is true of the link of a receipt. All other
// browsers of a network share a queue.
func (p *pages) caller(r *http.Request) work.Caller {
	if key, ok := p.sessionKey(r); ok {
		return work.Caller{Kind: work.Users, Name: key.UserID.String()}
	}
	if session, err := p.OAuth.OpenSession(cookieText(r, requestSessionCookie)); err == nil {
		return work.Caller{Kind: work.Users, Name: session.UserID.String()}
	}
	if sealed, ok := strings.CutPrefix(r.URL.Path, account.ReceiptPath); ok {
		if userID, ok := p.Accounts.UserOfReceipt(sealed); ok {
			return work.Caller{Kind: work.Users, Name: userID.String()}
		}
	}
	kind := work.Strangers
	if r.Method == http.MethodPost && (strings.HasSuffix(r.URL.Path, "/sign-in") || strings.HasSuffix(r.URL.Path, "/new-code")) {
		kind = work.Codes
	}
	return work.Caller{Kind: kind, Name: p.TrustedProxies.Of(r).String()}
}
