package client

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/text"
)

// Policy is a client's rate policy (specification section 8).
type Policy struct {
	RequestsPerMinute int `json:"requests_per_minute"` // sustained refill, 1 to 1,000,000
	Burst             int `json:"burst"`               // back-to-back requests when the budget is full, 1 to 1,000,000
	ConcurrentReads   int `json:"concurrent_reads"`    // concurrent activity reads, 1 to 10,000
}

// DefaultPolicy is used unless the operator sets another one.
var DefaultPolicy = Policy{RequestsPerMinute: 600, Burst: 60, ConcurrentReads: 10}

// Registration is what the operator registers about a client.
type Registration struct {
	Name         string    `json:"name"`         // 1 to 100 characters, shown to users
	CallbackURL  string    `json:"callback_url"` // see [ValidateCallback]
	Scopes       scope.Set `json:"scopes"`       // the allowance, at least one
	Policy       Policy    `json:"policy"`
	ContactEmail string    `json:"contact_email"` // optional
	HomepageURL  string    `json:"homepage_url"`  // optional, https, shown to users like the next three
	PrivacyURL   string    `json:"privacy_url"`
	TermsURL     string    `json:"terms_url"`
	// Logo of a client that was read has only its name: see [Registry.Logo].
	Logo brand.Logo `json:"-"`
	// WebhookParallel is how many events a server sends to the client concurrently, 1 to 64, or 0 for [DefaultWebhookParallel].
	WebhookParallel int `json:"webhook_parallel"`
}

// DefaultWebhookParallel suits a receiver that answers immediately.
const DefaultWebhookParallel = 8

// Limits are the maximum lengths in characters, or the largest numbers, of a registration's fields. The smallest number is 1.
var Limits = map[string]int{
	"name": 100, "callback": 2048, "contact-email": text.MaxAddress,
	"homepage": brand.MaxPage, "privacy-url": brand.MaxPage, "terms-url": brand.MaxPage,
	"requests-per-minute": 1_000_000, "burst": 1_000_000, "concurrent-reads": 10_000, "webhook-parallel": 64,
}

// validate makes the contact's address what is stored. It returns a *refusal.FieldError with the command line's name of the field: contact-email.
func (r *Registration) validate() error {
	r.ContactEmail = text.StoredAddress(r.ContactEmail)
	switch callback := ValidateCallback(r.CallbackURL); {
	case r.Name != strings.TrimSpace(r.Name) || r.Name == "" || utf8.RuneCountInString(r.Name) > Limits["name"] ||
		!utf8.ValidString(r.Name) || strings.ContainsFunc(r.Name, unseen) || !strings.ContainsFunc(r.Name, unicode.IsGraphic):
		return &refusal.FieldError{Field: "name", Problem: "must be 1 to 100 characters, without characters that cannot be seen or space at its ends"}
	case callback != nil:
		return &refusal.FieldError{Field: "callback", Problem: callback.Error()}
	case r.Scopes == 0 || !scope.All.Contains(r.Scopes):
		return &refusal.FieldError{Field: "scope", Problem: "must be one or more of " + strings.Join(scope.All.Names(), ", ")}
	case r.ContactEmail != "" && !text.IsAddress(r.ContactEmail):
		return &refusal.FieldError{Field: "contact-email", Problem: "must be an e-mail address like name@example.com"}
	}
	for _, number := range []struct {
		field string
		value int
	}{
		{"requests-per-minute", r.Policy.RequestsPerMinute},
		{"burst", r.Policy.Burst},
		{"concurrent-reads", r.Policy.ConcurrentReads},
		{"webhook-parallel", r.WebhookParallel},
	} {
		if most := Limits[number.field]; number.value < 1 || number.value > most {
			return &refusal.FieldError{Field: number.field, Problem: fmt.Sprintf("must be 1 to %d", most)}
		}
	}
	for _, page := range []struct{ field, address string }{
		{"homepage", r.HomepageURL}, {"privacy-url", r.PrivacyURL}, {"terms-url", r.TermsURL},
	} {
		if page.address != "" && !brand.IsPage(page.address) {
			return &refusal.FieldError{Field: page.field, Problem: "must be an https:// address of at most 2048 characters"}
		}
	}
	return nil
}

// unseen reports characters that are invisible, break the line, or change the direction of the text. A name with them could look like
// another one. The joiners that some scripts and emoji need are allowed.
func unseen(c rune) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	return unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) && c != nonJoiner && c != joiner
}

// ValidateCallback checks the rules of a callback (specification sections 1 and 4.2): at most 2048 bytes, `https://`, a path other than
// `/`, no fragment, wildcard, credentials, whitespace or backslash, and a query, if any, without the parameters that the service adds.
// Callbacks are compared as exact strings, so they must be visible ASCII.
func ValidateCallback(callback string) error {
	parsed, err := url.Parse(callback)
	if err != nil || strings.ContainsFunc(callback, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return errors.New("must be a URL of visible ASCII characters")
	}
	query, err := url.ParseQuery(parsed.RawQuery)
	switch {
	case len(callback) > Limits["callback"]:
		return errors.New("must be at most 2048 bytes")
	case !strings.HasPrefix(callback, "https://") || parsed.Hostname() == "":
		return errors.New("must begin with https:// and a host")
	case parsed.User != nil:
		return errors.New("must not contain credentials")
	case strings.ContainsAny(callback, `#*\`):
		return errors.New("must not contain a fragment, a wildcard or a backslash")
	case parsed.Path == "" || parsed.Path == "/":
		return errors.New("must have a path other than /")
	case err != nil:
		return errors.New("must have a well-formed query, if any")
	case query.Has("code") || query.Has("state") || query.Has("error") || query.Has("error_description"):
		return errors.New("must not have code, state, error or error_description in its query")
	}
	return nil
}
