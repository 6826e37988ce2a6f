package webhook

import (
	"net/url"
	"strconv"
	"strings"

	"connect-svc/internal/foundation/refusal"
)

// MaxURL bounds the length of a receiver's URL in characters.
const MaxURL = 2048

func wrongURL(problem string) error { return &refusal.FieldError{Field: "url", Problem: problem} }

// ValidateURL reports whether events can be sent to a URL: https, with a host, without user information and fragment, up
// to 2,048 visible ASCII characters. The address behind its name is checked at each connection. Error: *refusal.FieldError of url, without the URL.
func ValidateURL(text string) error {
	_, err := parseURL(text)
	return err
}

func parseURL(text string) (*url.URL, error) {
	if len(text) > MaxURL || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, wrongURL("must be up to " + strconv.Itoa(MaxURL) + " visible ASCII characters")
	}
	parsed, err := url.Parse(text)
	if err != nil || !strings.HasPrefix(text, "https://") || parsed.Hostname() == "" {
		return nil, wrongURL("must be an https URL such as https://partner.example/webhooks")
	}
	if parsed.User != nil || strings.Contains(text, "#") {
		return nil, wrongURL("must have no user, password or fragment")
	}
	if port := parsed.Port(); port != "" || strings.HasSuffix(parsed.Host, ":") {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return nil, wrongURL("must have a port from 1 to 65535, or none")
		}
	}
	return parsed, nil
}
