package partner

import (
	"encoding/base64"
	"net/url"
	"strings"

	"connect-svc/internal/api/contract"
)

// basicCredentials returns the client ID and secret of an Authorization header (specification 5.1): both form-encoded, joined with a
// colon, in base64. The name of the scheme is case-insensitive (RFC 9110, 11.1).
func basicCredentials(header string) (id, secret string, ok bool) {
	encoded, ok := authorization(header, "Basic")
	if !ok {
		return "", "", false
	}
	joined, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return "", "", false
	}
	id, secret, ok = strings.Cut(string(joined), ":")
	if !ok {
		return "", "", false
	}
	if id, err = url.QueryUnescape(id); err != nil || !contract.Clean(id) {
		return "", "", false
	}
	if secret, err = url.QueryUnescape(secret); err != nil || !contract.Clean(secret) {
		return "", "", false
	}
	return id, secret, true
}

// authorization returns what follows the scheme in an Authorization header. It must be one word on one line, which the base64 decoder
// does not check.
func authorization(header, scheme string) (value string, ok bool) {
	name, value, _ := strings.Cut(header, " ")
	return value, strings.EqualFold(name, scheme) && value != "" && !strings.ContainsAny(value, " \r\n")
}
