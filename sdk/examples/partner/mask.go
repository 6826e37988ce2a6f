package partner

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// The pages show requests and responses without credentials (specification 5.5): of each credential at most its prefix and its last
// four characters, to distinguish them. Everything that is not known to be harmless is masked.

var (
	// credential matches any value with a prefix of specification 2.9 or of a webhook's secret.
	credential = regexp.MustCompile(`\b(svci_|svcc_|svca_|svcr2_|cc1_|whsec_)[\w+/=.~%-]+`)
	// grantInPath matches a grant id, which must not reach a browser.
	grantInPath = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	// signature matches one value in the header webhook-signature, without its version.
	signature = regexp.MustCompile(`,[^ ]+`)
	// secretField matches a field of JSON written by json.Indent.
	secretField = regexp.MustCompile(`("(?:access_token|refresh_token|grant_id|next_cursor)": )"((?:[^"\\]|\\.)*)"`)

	// harmless are the fields of forms and queries that are shown unmasked.
	harmless = []string{
		"client_id", "redirect_uri", "response_type", "scope", "code_challenge_method", "grant_type", "token_type_hint", "error",
		"from", "to", "limit",
	}
	// shownHeaders are the headers on the page, in this order.
	shownHeaders = []string{
		"Authorization", "Content-Type", "WWW-Authenticate", "Retry-After", "RateLimit-Limit", "RateLimit-Remaining",
		"RateLimit-Reset", "Cache-Control", "X-Request-ID", "webhook-id", "webhook-timestamp", "webhook-signature",
	}
)

const (
	firstLines = 14 // of a body on the page
	lastLines  = 10
)

func mask(value string) string {
	prefix := ""
	if found := credential.FindStringSubmatchIndex(value); found != nil && found[0] == 0 {
		prefix = value[:found[3]]
	}
	if len(value)-len(prefix) < 16 {
		return prefix + "…" // four of its characters would be too many
	}
	return prefix + "…" + value[len(value)-4:]
}

func maskAll(text string) string { return credential.ReplaceAllStringFunc(text, mask) }

// maskFields writes the fields of a query or a form, separated.
func maskFields(encoded, separator string) string {
	var lines []string
	for field := range strings.SplitSeq(encoded, "&") {
		name, value, _ := strings.Cut(field, "=")
		value, err := url.QueryUnescape(value)
		if err != nil {
			value = "…"
		}
		if !slices.Contains(harmless, name) {
			value = mask(value)
		}
		lines = append(lines, name+"="+value)
	}
	return maskAll(strings.Join(lines, separator))
}

// maskTarget writes an address without its host, with a field of the query on each line.
func maskTarget(u *url.URL) string {
	target := maskAll(grantInPath.ReplaceAllStringFunc(u.Path, mask))
	if u.RawQuery != "" {
		target += "\n  ?" + maskFields(u.RawQuery, "\n  &")
	}
	return target
}

// maskHeaders writes each header after a line break.
func maskHeaders(header http.Header) string {
	var out strings.Builder
	for _, name := range shownHeaders {
		value := header.Get(name)
		if value == "" {
			continue
		}
		switch name {
		case "Authorization":
			if id, secret, basic := (&http.Request{Header: header}).BasicAuth(); basic {
				value = "Basic base64(" + id + ":" + mask(secret) + ")"
			} else {
				scheme, rest, _ := strings.Cut(value, " ")
				value = scheme + " " + mask(rest)
			}
		case "webhook-signature":
			value = signature.ReplaceAllStringFunc(value, func(text string) string { return "," + mask(text[1:]) })
		}
		out.WriteString("\n" + name + ": " + maskAll(value))
	}
	return out.String()
}

// maskBody writes indented JSON after an empty line, without the middle of a long body.
func maskBody(body []byte) string {
	if len(body) == 0 {
		return ""
	}
	var pretty bytes.Buffer
	if len(body) > mostRecorded || json.Indent(&pretty, body, "", "  ") != nil {
		return "\n\n(not shown: it is no JSON, or long)"
	}
	text := secretField.ReplaceAllStringFunc(pretty.String(), func(field string) string {
		parts := secretField.FindStringSubmatch(field)
		return parts[1] + `"` + mask(parts[2]) + `"`
	})
	lines := strings.Split(maskAll(text), "\n")
	if hidden := len(lines) - firstLines - lastLines; hidden > 1 {
		lines = slices.Concat(lines[:firstLines], []string{"  ⋮ " + count(hidden, "more line")}, lines[len(lines)-lastLines:])
	}
	return "\n\n" + strings.Join(lines, "\n")
}
