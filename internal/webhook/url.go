package webhook

import (
	"net/url"
	"strconv"
	"strings"
)

// URLError says what is wrong with the URL of a receiver. It does not hold the URL.
type URLError struct{ Problem string }

func (e *URLError) Error() string { return "webhook URL: " + e.Problem }

// maxURL bounds the length of a receiver's URL in characters.
const maxURL = 2048

// ValidateURL reports whether events can be sent to a URL: https, with a host, without user information and fragment, up
// to 2,048 visible ASCII characters. The address behind its name is checked at each connection. The error is a *URLError.
func ValidateURL(text string) error {
	_, err := parseURL(text)
	return err
}

func parseURL(text string) (*url.URL, error) {
	if len(text) > maxURL || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, &URLError{"must be up to " + strconv.Itoa(maxURL) + " visible ASCII characters"}
	}
	parsed, err := url.Parse(text)
	if err != nil || !strings.HasPrefix(text, "https://") || parsed.Hostname() == "" {
		return nil, &URLError{"must be an https URL such as https://partner.example/webhooks"}
	}
	if parsed.User != nil || strings.Contains(text, "#") {
		return nil, &URLError{"must have no user, password or fragment"}
	}
	if port := parsed.Port(); port != "" || strings.HasSuffix(parsed.Host, ":") {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return nil, &URLError{"must have a port from 1 to 65535, or none"}
		}
	}
	return parsed, nil
}
