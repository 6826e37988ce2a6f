package partner

import (
	"encoding/base64"
	"net/url"
	"strings"

	"connect-svc/internal/edge/contract"
)

// basicCredentials returns the client ID and secret of an Authorization header (specification 5.1): both form-encoded, joined with a
// colon, in base64.
func basicCredentials(header string) (id, secret string, ok bool) {
	encoded, ok := contract.Authorization(header, "Basic")
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
