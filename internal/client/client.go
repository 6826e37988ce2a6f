package client

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"connect-svc/internal/brand"
	"connect-svc/internal/mailbox"
	"connect-svc/internal/page"
	"connect-svc/internal/scope"
)

// Status is whether a client can be used.
type Status string

// The states of a client. Disabled can be undone, offboarded can not.
const (
	Active     Status = "active"
	Disabled   Status = "disabled"
	Offboarded Status = "offboarded"
)

// Policy is a client's rate policy (specification section 8).
type Policy struct {
	RequestsPerMinute int // sustained refill, 1 to 1,000,000
	Burst             int // back-to-back requests when the budget is full, 1 to 1,000,000
	ConcurrentReads   int // activity reads at the same time, 1 to 10,000
}

// DefaultPolicy is the policy of a client that was given no other.
var DefaultPolicy = Policy{RequestsPerMinute: 600, Burst: 60, ConcurrentReads: 10}

// Registration is what an operator says about a client.
type Registration struct {
	Name         string    // 1 to 100 characters, shown to users
	CallbackURL  string    // see ValidateCallback
	Scopes       scope.Set // the allowance: what the client may ask for, at least one
	Policy       Policy
	ContactEmail string // optional
	HomepageURL  string // optional, https, shown to users, as are the next three
	PrivacyURL   string
	TermsURL     string
	Logo         brand.Logo // as it is read, only its name: see [Registry.Logo]
	// WebhookParallel is how many events a server sends to the client at the same time, 1 to 64; 0: [DefaultWebhookParallel].
	WebhookParallel int
}

// DefaultWebhookParallel suits a receiver that answers at once.
const DefaultWebhookParallel = 8

// Client is a registered client.
type Client struct {
	ID uuid.UUID
	Registration
	Status    Status
	CreatedAt time.Time
	// OverlapUntil is until when the secret of before works beside the current one. Zero: it does not.
	OverlapUntil time.Time
}

// Key is the client's place in a list.
func (c Client) Key() page.Key { return page.Key{At: c.CreatedAt, ID: c.ID} }

// Secret is a client's new secret, which is not stored and cannot be shown again.
type Secret struct {
	Secret       string
	OverlapUntil time.Time // until when the secret of before works, too; zero: it has ended
}

// MaxOverlap is for how long a secret can work beside the one that replaced it.
const MaxOverlap = 30 * 24 * time.Hour

func checkOverlap(overlap time.Duration) error {
	if overlap < 0 || overlap > MaxOverlap || overlap%time.Second != 0 {
		return &FieldError{"overlap", "must be 0 or whole seconds, at most 720h"}
	}
	return nil
}

// Errors of this package, next to *FieldError.
var (
	ErrNotFound   = errors.New("no such client")
	ErrOffboarded = errors.New("the client was offboarded")
	ErrExists     = errors.New("there is a client of this id")

	ErrReplacedSince = errors.New("the secret was replaced since")
)

// FieldError says which field of a registration is wrong, and what is accepted.
type FieldError struct {
	Field   string // in the names of the command line: "name", "callback", "scope" …
	Problem string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

// unseen are characters that show as nothing, break the line, or turn around what follows: with them a name could look like
// another one. The joiners that some scripts and emoji need are not among them.
func unseen(c rune) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	return unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) && c != nonJoiner && c != joiner
}

func (r *Registration) validate() error {
	if r.Name != strings.TrimSpace(r.Name) || r.Name == "" || utf8.RuneCountInString(r.Name) > 100 ||
		!utf8.ValidString(r.Name) || strings.ContainsFunc(r.Name, unseen) || !strings.ContainsFunc(r.Name, unicode.IsGraphic) {
		return &FieldError{"name", "must be 1 to 100 characters, without characters that cannot be seen or space at its ends"}
	}
	if err := ValidateCallback(r.CallbackURL); err != nil {
		return &FieldError{"callback", err.Error()}
	}
	if r.Scopes == 0 || !scope.All.Contains(r.Scopes) {
		return &FieldError{"scope", "must be one or more of " + strings.Join(scope.All.Names(), ", ")}
	}
	for _, part := range []struct {
		field      string
		value, max int
	}{
		{"requests-per-minute", r.Policy.RequestsPerMinute, 1_000_000},
		{"burst", r.Policy.Burst, 1_000_000},
		{"concurrent-reads", r.Policy.ConcurrentReads, 10_000},
		{"webhook-parallel", r.WebhookParallel, 64},
	} {
		if part.value < 1 || part.value > part.max {
			return &FieldError{part.field, fmt.Sprintf("must be 1 to %d", part.max)}
		}
	}
	if r.ContactEmail != "" {
		if !mailbox.Valid(r.ContactEmail) {
			return &FieldError{"contact-email", "must be an e-mail address like name@example.com"}
		}
	}
	for _, page := range []struct{ field, address string }{
		{"homepage", r.HomepageURL}, {"privacy-url", r.PrivacyURL}, {"terms-url", r.TermsURL},
	} {
		if page.address != "" && !brand.IsPage(page.address) {
			return &FieldError{page.field, "must be an https:// address of at most 2048 characters"}
		}
	}
	return nil
}

// ValidateCallback checks the rules of a callback (specification section 1 and 4.2): at most 2048 bytes, `https://`,
// a path other than `/`, no fragment, wildcard, credentials, whitespace or backslash, and a query, if any, that names
// none of the parameters that the service adds. Callbacks are compared as exact strings, so they are visible ASCII.
func ValidateCallback(callback string) error {
	parsed, err := url.Parse(callback)
	switch {
	case len(callback) > 2048:
		return errors.New("must be at most 2048 bytes")
	case err != nil, !visibleASCII(callback):
		return errors.New("must be a URL of visible ASCII characters")
	case !strings.HasPrefix(callback, "https://") || parsed.Hostname() == "":
		return errors.New("must begin with https:// and a host")
	case parsed.User != nil:
		return errors.New("must not contain credentials")
	case strings.ContainsAny(callback, `#*\`):
		return errors.New("must not contain a fragment, a wildcard or a backslash")
	case parsed.Path == "" || parsed.Path == "/":
		return errors.New("must have a path other than /")
	}
	query, err := url.ParseQuery(parsed.RawQuery)
	if err != nil {
		return errors.New("must have a well-formed query, if any")
	}
	for _, reserved := range []string{"code", "state", "error", "error_description"} {
		if query.Has(reserved) {
			return errors.New("must not have code, state, error or error_description in its query")
		}
	}
	return nil
}

func visibleASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}
