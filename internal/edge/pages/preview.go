package pages

import (
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/locale"
	"connect-svc/internal/foundation/scope"
)

// sample is a page in one of its states.
type sample struct {
	Name, Says string // in a path, and to people
	view       string
	data       view
}

// samples are all pages in all their states, with one partner that has everything and one that has nothing but a name.
func samples() []sample {
	const callback = "https://www.stride.example/callback"
	day := time.Date(2026, 5, 18, 0, 0, 0, 0, time.UTC)
	id := uuid.MustParse("00000000-0000-4000-8000-000000000001")
	stride := partner{Partner: oauth.Partner{
		ClientID: id, Name: "Stride Club", HomepageURL: "https://www.stride.example/",
		PrivacyURL: "https://www.stride.example/privacy", TermsURL: "https://www.stride.example/terms",
	}, Callback: callback}
	request := view{Base: "/authorize/" + id.String(), Partner: stride, Minutes: 10, Left: account.CodeLifetime, Email: "robin@example.com"}
	atAccount := view{Base: accountBase, Minutes: 30, Left: account.CodeLifetime, Email: "robin@example.com"}
	with := func(v view, change func(*view)) view { change(&v); return v }
	problem := func(v view, name string) view {
		v.Problem, v.Invalid = name, true
		return v
	}
	later := func(v view, wait time.Duration) view {
		v.Wait, v.Restart = wait, true
		return v
	}
	consent := func(asked, current scope.Set, state oauth.State) view {
		return with(request, func(v *view) {
			v.Consent = oauth.Consent{
				Scopes: asked, Current: current, State: state, Email: v.Email, HistoryFrom: day, ScopeMismatch: state != "" && asked != current,
			}
		})
	}
	connected := func(name string, state oauth.State, scopes scope.Set) connection {
		return connection{Connection: oauth.Connection{State: state, Scopes: scopes, AuthorizedAt: day, HistoryFrom: day},
			Partner: partner{Partner: oauth.Partner{ClientID: id, Name: name}}}
	}
	connections := []connection{
		connected("Stride Club", oauth.Authorized, scope.All),
		connected("Walk & Win", oauth.Lapsed, scope.DailySteps),
		connected("Velo Versicherung AG", oauth.Revoked, scope.CyclingDaily),
	}
	connections[0].Partner, connections[0].LastReads = stride, []lastRead{
		{scope.DailySteps.String(), day.Add(13 * time.Hour), 0}, {scope.CyclingDaily.String(), day.AddDate(0, 0, -1), 1},
		{scope.CyclingActivities.String(), day.AddDate(0, 0, -16), 16},
	}
	connections[1].LastReads = []lastRead{{"", day.AddDate(0, -4, 0), 120}}
	ended := func(cause string, asking partner) view {
		return view{Base: request.Base, Problem: cause, Partner: asking, Code: string(oauth.InvalidRequest)}
	}
	return []sample{
		{"sign-in", "Sign-in", "sign-in", request},
		{"sign-in-problem", "Sign-in: no address", "sign-in", problem(request, "address")},
		{"sending", "Code: still being sent", "sending", request},
		{"code", "Code", "code", request},
		{"code-again", "Code: sent again", "code", with(request, func(v *view) { v.SentAgain = true })},
		{"code-malformed", "Code: not six digits", "code", problem(request, "malformed")},
		{"code-wrong", "Code: wrong", "code", with(problem(request, "wrong"), func(v *view) { v.AttemptsLeft = 3 })},
		{"code-spent", "Code: five times wrong", "code", problem(request, "spent")},
		{"code-last", "Code: the last one for now", "code", later(request, 58*time.Minute)},
		{"code-older", "Code: of an earlier email", "code", problem(request, "older")},
		{"code-spent-last", "Code: five times wrong, the last one for now", "code", later(problem(request, "spent"), 58*time.Minute)},
		{"code-expired", "Code: too old", "code", problem(request, "expired")},
		{"code-off", "Code: the link alone works", "code", with(problem(request, "no-codes"), func(v *view) { v.NoCodes = true })},
		{"code-old-link", "Code: the link of an older email", "code", problem(request, "old-link")},
		{"link", "Link of the email", "link", request},
		{"link-elsewhere", "Link of the email: another browser", "link-elsewhere", view{}},
		{"consent", "Consent", "consent", consent(scope.All, 0, "")},
		{"consent-today", "Consent: with what was recorded today", "consent", with(consent(scope.All, 0, ""), func(v *view) {
			v.Today = activity.Today{Steps: new(int64(4312)), Meters: new(int64(7400)), Rides: 1, RideMeters: 7400}
		})},
		{"consent-one", "Consent: one scope", "consent", consent(scope.DailySteps, 0, "")},
		{"consent-again", "Consent: can see it already", "consent", consent(scope.All, scope.All, oauth.Authorized)},
		{"consent-halted", "Consent: could see it before", "consent", consent(scope.All, scope.All, oauth.Revoked)},
		{"consent-end", "Consent: disconnect", "disconnect", with(request, func(v *view) { v.Connections = connections[:1] })},
		{"mismatch", "Consent: other scopes than before", "consent",
			consent(scope.CyclingDaily|scope.CyclingActivities, scope.DailySteps|scope.CyclingDaily, oauth.Authorized)},
		{"account-sign-in", "Account: sign-in", "account-sign-in", atAccount},
		{"account-signed-out", "Account: signed out", "account-sign-in", with(atAccount, func(v *view) { v.News = "signed-out" })},
		{"account-code", "Account: code", "code", atAccount},
		{"account-link", "Account: link of the email", "link", atAccount},
		{"account", "Account", "account", with(atAccount, func(v *view) {
			v.Connections = connections
			v.Browsers = []account.Browser{{Name: "Firefox (Linux)", SignedInAt: day.Add(13 * time.Hour), FirstAt: &day, This: true}, {SignedInAt: day}}
		})},
		{"account-none", "Account: no connections", "account", atAccount},
		{"account-gone", "Account: disconnected", "account", with(atAccount, func(v *view) {
			v.Gone, v.Connections = "Stride Club", connections[1:2]
		})},
		{"disconnect", "Disconnect", "disconnect", with(atAccount, func(v *view) { v.Partner, v.Connections = stride, connections[:1] })},
		{"receipt", "Receipt: sign a browser out", "receipt", with(atAccount, func(v *view) {
			v.Problem, v.Browsers = "browser", []account.Browser{{Name: "Firefox (Linux)", SignedInAt: day}}
		})},
		{"receipt-signed-out", "Receipt: the browser is signed out", "receipt", with(atAccount, func(v *view) { v.Problem, v.Over = "browser", true })},
		{"receipt-ended", "Receipt: the connection has ended", "receipt", with(atAccount, func(v *view) { v.Problem, v.Partner = "ended", stride })},
		{"receipt-renewed", "Receipt: connected again", "receipt", with(atAccount, func(v *view) { v.Problem, v.Partner = "renewed", stride })},
		{"receipt-dead", "Receipt: too old", "receipt", atAccount},
		{"ended-expired", "Ended: too late", "ended", ended("expired", stride)},
		{"ended-decided", "Ended: decided already", "ended", ended("decided", stride)},
		{"ended-denied", "Ended: denied already", "ended", with(ended("decided", stride), func(v *view) { v.Denied = true })},
		{"ended-midnight", "Ended: the day is over", "ended", ended("midnight", stride)},
		{"ended-partner", "Ended: the partner", "ended", ended("partner", stride)},
		{"ended-cookies", "Ended: another browser", "ended", ended("cookies", partner{})},
		{"ended-unknown", "Ended: unknown", "ended", ended("unknown", partner{})},
		{"refused", "Refused", "refused", view{Code: string(oauth.InvalidRequest)}},
		{"too-many-codes", "Too many codes", "too-many-codes", later(request, 58*time.Minute)},
		{"too-many-today", "Too many codes in a day", "too-many-codes", later(request, 23*time.Hour)},
		{"unavailable", "No email can be sent", "unavailable", request},
		{"bad-form", "A form that cannot be read", "bad-form", request},
		{"not-found", "Not found", "not-found", view{}},
		{"fault", "Fault", "fault", request},
	}
}

//go:embed preview
var previewFiles embed.FS

var previewPages = template.Must(template.ParseFS(previewFiles, "preview/*.html"))

// Preview shows every page and email with a brand and texts, to the operator and to nobody else: /{language} has all of
// them side by side. It knows no database, and what is pressed on the pages does nothing.
func Preview(design brand.Brand, texts *locale.Catalogue) (http.Handler, error) {
	files, err := readSite(design, texts, staticPath)
	if err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	p := &pages{site: files}
	texts = files.Texts
	router := chi.NewRouter()
	for link, name := range map[string]string{ // links of the pages have no language in their paths
		"/":                           "",
		"/authorize/{client}/sign-in": "sign-in", "/authorize/{client}/code": "code",
		"/authorize/{client}/consent": "consent-again", "/authorize/{client}/disconnect": "consent-end",
		accountBase: "account", accountBase + "/sign-in": "account-sign-in", accountBase + "/connections/{client}/disconnect": "disconnect",
	} {
		router.Get(link, func(w http.ResponseWriter, r *http.Request) {
			tag := files.Locale(r).Tag
			if seen := cookieText(r, "language"); seen != "" {
				tag = texts.Locale(seen).Tag
			}
			http.Redirect(w, r, path.Join("/", tag, name), http.StatusSeeOther) //nolint:gosec // one of our languages
		})
	}
	router.Handle("/preview/*", http.FileServerFS(previewFiles))
	router.Get("/static/{name}", p.page(p.site.ServeFile))
	router.Route("/{language}", func(router chi.Router) {
		router.Use(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				tag := chi.URLParam(r, "language")
				if !slices.Contains(texts.Tags(), tag) {
					http.NotFound(w, r)
					return
				}
				r.Header.Set("Accept-Language", tag)
				http.SetCookie(w, &http.Cookie{Name: "language", Value: tag, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode}) //nolint:gosec // plain HTTP on loopback
				next.ServeHTTP(w, r)
			})
		})
		router.Get("/", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			if err := previewPages.ExecuteTemplate(w, "index.html", struct {
				Brand, Tag string
				Tags       []string
				Samples    []sample
				Emails     any
			}{files.Brand.Name, files.Locale(r).Tag, texts.Tags(), samples(), account.Samples}); err != nil {
				panic(err)
			}
		})
		for _, s := range samples() {
			router.Get("/"+s.Name, func(w http.ResponseWriter, r *http.Request) { files.Write(w, r, http.StatusOK, s.view, s.data) })
		}
		for _, email := range account.Samples {
			show := func(w http.ResponseWriter, r *http.Request) {
				text, html, err := account.SampleEmail(files.Brand, r.Host, email.Name, files.Locale(r))
				if err != nil {
					panic(err)
				}
				if path.Ext(r.URL.Path) == ".txt" {
					http.ServeContent(w, r, "email.txt", time.Time{}, strings.NewReader(text))
					return
				}
				html = strings.ReplaceAll(html, `"cid:logo"`, `"data:image/png;base64,`+base64.StdEncoding.EncodeToString(files.Brand.InMail().Content)+`"`)
				http.ServeContent(w, r, "email.html", time.Time{}, strings.NewReader(html))
			}
			router.Get("/"+email.Name, show)
			router.Get("/"+email.Name+".txt", show)
		}
	})
	return router, nil
}
