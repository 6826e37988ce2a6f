package partner

import (
	"encoding/base64"
	"net/url"
	"strings"

	"connect-svc/internal/api/contract"
)

// basicCredentials takes client ID and secret from the value of an Authorization header (specification 5.1): each of
// them form-encoded, joined with a colon, in base64. The name of the scheme is case-insensitive (RFC 9110, 11.1).
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

// bearerToken takes the access token from the value of an Authorization header (RFC 6750, section 2.1).
func bearerToken(header string) (token string, ok bool) {
	return authorization(header, "Bearer")
}

// authorization is what follows the scheme in an Authorization header: one word, on one line, which base64 would not mind.
func authorization(header, scheme string) (value string, ok bool) {
	name, value, _ := strings.Cut(header, " ")
	return value, strings.EqualFold(name, scheme) && value != "" && !strings.ContainsAny(value, " \r\n")
}
