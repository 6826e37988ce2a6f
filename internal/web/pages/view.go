package browser

import (
	"net/url"
	"time"
	"unicode"
	"unicode/utf8"

	"connect-svc/internal/oauth"
)

// view is what the templates show. A page uses the fields that it needs; the rest are zero.
type view struct {
	Base    string // of the paths: /authorize/{request} or /account
	Company company
	Minutes int // that an authorization may take in all, or that a session of the account lasts

	Email     string // as it was typed
	Problem   string // what was wrong with the form: a name that the template knows
	TriesLeft int    // of the code
	SentAgain bool   // a new code is on its way

	News string // what has just happened: a name that the template knows; it may be anything else

	Connections []connection // of the account: all, or the one to be disconnected
	Gone        string       // name of the company that was just disconnected

	Consent oauth.Consent
	Reads   []string // names of the scopes

	Code string // why it failed
}

// view begins the view of a page about the request.
func (p *pages) view(request pending) view {
	return view{
		Base:    request.base,
		Company: company{request.ClientName, request.HomepageURL, request.CallbackURL},
		Minutes: minutes(p.RequestLifetime),
	}
}

// company is who asks, or who reads.
type company struct {
	Name     string
	Homepage string // may be empty
	Callback string // empty on the account pages
}

// initial is the letter that stands for a company beside its name.
func initial(name string) string {
	first, _ := utf8.DecodeRuneInString(name)
	return string(unicode.ToUpper(first))
}

// hostOf is the part of an address that tells people where it leads.
func hostOf(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return parsed.Host
}

// inWords is a day as people write it: 21 November 2026.
func inWords(day time.Time) string { return day.Format("2 January 2006") }

// minutes rounds up, and is at least one.
func minutes(d time.Duration) int { return max(1, int((d+time.Minute-1)/time.Minute)) }
