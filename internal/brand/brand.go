package brand

import (
	"crypto/sha256"
	"encoding/hex"
	"net/mail"
	"net/url"
	"strings"
)

// DefaultName is the name of a service whose operator has given it none.
const DefaultName = "Activity Connect"

// Brand is whose pages and emails these are. All but the name may be empty.
type Brand struct {
	Name       string
	Logo       Logo
	LogoDark   Logo // on a dark page; empty: Logo is for both
	Color      Color
	SupportURL string // https: or mailto:, where users get help
	PrivacyURL string // https:, the privacy policy
}

// OnDark is the logo for a dark page, where it is another one.
func (b Brand) OnDark() Logo {
	if b.LogoDark.Name == b.Logo.Name {
		return Logo{}
	}
	return b.LogoDark
}

// IsPage says whether an address leads to a page that users may be sent to: https, at most 2048 characters, no credentials.
func IsPage(address string) bool {
	parsed, err := url.Parse(address)
	unseen := strings.ContainsFunc(address, func(c rune) bool { return c <= ' ' || c > '~' })
	return err == nil && parsed.Scheme == "https" && parsed.Host != "" && parsed.User == nil && len(address) <= 2048 && !unseen
}

// IsSupport says whether users may be sent to an address for help: a page, or mailto: with one address.
func IsSupport(address string) bool {
	recipient, isMail := strings.CutPrefix(address, "mailto:")
	if !isMail {
		return IsPage(address)
	}
	parsed, err := mail.ParseAddress(recipient)
	return err == nil && parsed.Address == recipient && !strings.ContainsAny(recipient, "?&%\"<> ")
}

// File belongs to a brand and is to be served. Its name changes with its content.
type File struct {
	Name, MediaType string
	Content         []byte
}

// Style is the name of the style sheet that puts the color into the place of the pages' own; empty where there is none.
func (b Brand) Style() string {
	css := b.Color.CSS()
	if css == "" {
		return ""
	}
	return fileName("brand-", []byte(css), ".css")
}

// Files are the logos and the style sheet that there are.
func (b Brand) Files() []File {
	var files []File
	for _, logo := range []Logo{b.Logo, b.OnDark()} {
		if logo.Name != "" {
			files = append(files, File{logo.Name, logo.MediaType(), logo.Content})
		}
	}
	if style := b.Style(); style != "" {
		files = append(files, File{style, "text/css; charset=utf-8", []byte(b.Color.CSS())})
	}
	return files
}

// fileName is a name that changes with the content.
func fileName(prefix string, content []byte, extension string) string {
	sum := sha256.Sum256(content)
	return prefix + hex.EncodeToString(sum[:8]) + extension
}
