package partner

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// The pages show requests and answers, and no credential in them (specification 5.5): of each its prefix and its last
// four characters at most, enough to see which is which. What is not known to be harmless is masked.

// credential is anything with a prefix of specification 2.9, or of a webhook's secret, wherever it stands.
var credential = regexp.MustCompile(`\b(svci_|svcc_|svca_|svcr2_|cc1_|whsec_)[\w+/=.~%-]+`)

// mask is what is shown of a credential.
func mask(value string) string {
	prefix := ""
	if found := credential.FindStringSubmatchIndex(value); found != nil && found[0] == 0 {
		prefix = value[:found[3]]
	}
	if len(value)-len(prefix) < 16 {
		return prefix + "…" // four of it would be too many
	}
	return prefix + "…" + value[len(value)-4:]
}

func maskAll(text string) string { return credential.ReplaceAllStringFunc(text, mask) }

// harmless are the fields of forms and queries that are shown as they are.
var harmless = []string{
	"client_id", "redirect_uri", "response_type", "scope", "code_challenge_method", "grant_type", "token_type_hint", "error",
	"from", "to", "limit",
}

// maskFields writes a query or a form with a field on each line.
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
		lines = append(lines, maskAll(name)+"="+maskAll(value))
	}
	return strings.Join(lines, separator)
}

// grantInPath names the connection, which is not for a browser.
var grantInPath = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

func maskTarget(u *url.URL) string {
	target := grantInPath.ReplaceAllStringFunc(u.Path, mask)
	if u.RawQuery != "" {
		target += "\n  ?" + maskFields(u.RawQuery, "\n  &")
	}
	return maskAll(target)
}

// shownHeaders are those that are shown, in this order.
var shownHeaders = []string{
	"Authorization", "Content-Type", "Location", "WWW-Authenticate", "Retry-After", "RateLimit-Limit", "RateLimit-Remaining",
	"RateLimit-Reset", "Cache-Control", "X-Request-ID", "webhook-id", "webhook-timestamp", "webhook-signature",
}

// maskHeaders writes each on a line of its own, after a line break.
func maskHeaders(header http.Header) string {
	var out strings.Builder
	for _, name := range shownHeaders {
		if value := header.Get(name); value != "" {
			switch name {
			case "Authorization":
				value = maskAuthorization(value)
			case "webhook-signature":
				value = maskSignatures(value)
			case "Location":
				value = "…"
			}
			out.WriteString("\n" + name + ": " + maskAll(value))
		}
	}
	return out.String()
}

// maskAuthorization shows what Basic says, which is the secret in another form.
func maskAuthorization(value string) string {
	scheme, rest, _ := strings.Cut(value, " ")
	if scheme == "Basic" {
		plain, err := base64.StdEncoding.DecodeString(rest)
		id, secret, found := strings.Cut(string(plain), ":")
		if err != nil || !found {
			return "Basic …"
		}
		return "Basic base64(" + id + ":" + mask(secret) + ")"
	}
	return scheme + " " + mask(rest)
}

func maskSignatures(value string) string {
	signatures := strings.Split(value, " ")
	for i, signature := range signatures {
		version, encoded, _ := strings.Cut(signature, ",")
		if version != "v1" {
			version = "…"
		}
		signatures[i] = version + "," + mask(encoded)
	}
	return strings.Join(signatures, " ")
}

// secretField is a field of a body whose value is masked, in JSON that json.Indent wrote.
var secretField = regexp.MustCompile(`("(?:access_token|refresh_token|grant_id|next_cursor)": )"((?:[^"\\]|\\.)*)"`)

const (
	firstLines = 14 // of a body that is shown
	lastLines  = 10
)

// maskBody writes JSON for a person, without the middle of what is long.
func maskBody(body []byte) string {
	if len(body) == 0 {
		return ""
	}
	var pretty bytes.Buffer
	if len(body) > mostRecorded || json.Indent(&pretty, body, "", "  ") != nil {
		return "(not shown: it is no JSON, or long)"
	}
	text := secretField.ReplaceAllStringFunc(pretty.String(), func(field string) string {
		parts := secretField.FindStringSubmatch(field)
		return parts[1] + `"` + mask(parts[2]) + `"`
	})
	lines := strings.Split(maskAll(text), "\n")
	if hidden := len(lines) - firstLines - lastLines; hidden > 1 {
		lines = slices.Concat(lines[:firstLines], []string{"  ⋮ " + count(hidden, "more line")}, lines[len(lines)-lastLines:])
	}
	return strings.Join(lines, "\n")
}
