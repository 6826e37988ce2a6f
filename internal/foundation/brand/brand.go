package brand

import (
	"crypto/sha256"
	"encoding/hex"
	"net/mail"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// DefaultName is the name of a service whose operator has not named it.
const DefaultName = "Activity Connect"

// Brand describes the operator to users, on pages and in emails. Every field except Name may be empty.
type Brand struct {
	Name       string `setting:"" again:"" type:"brand name" default:"Activity Connect" placeholder:"NAME" help:"The name that users see on pages and in emails."`
	Logo       Logo   `setting:"" again:"" type:"logo" placeholder:"FILE" help:"Logo on pages, SVG or PNG. Empty: the built-in mark."`
	LogoDark   Logo   `setting:"" again:"" type:"logo" placeholder:"FILE" help:"Logo on dark pages. Empty: the same logo."`
	Icon       Logo   `setting:"" again:"" type:"icon" placeholder:"FILE" help:"Square icon on the consent page and in emails, PNG. Empty: a logo that fits, or the first letter of the name."`
	Color      Color  `setting:"" again:"" type:"color" placeholder:"#RRGGBB" help:"Color of buttons, from which that of links and backgrounds is made. Empty: green."`
	SupportURL string `setting:"" again:"" type:"support page" name:"support-url" placeholder:"URL" help:"Where users get help: https://… or mailto:…"`
	PrivacyURL string `setting:"" again:"" type:"page" name:"privacy-url" placeholder:"URL" help:"The operator's privacy policy."`
}

// OnDark returns the logo for dark pages if it differs from Logo.
func (b Brand) OnDark() Logo {
	if b.LogoDark.Name == b.Logo.Name {
		return Logo{}
	}
	return b.LogoDark
}

// Letter returns the letter that stands for the brand where there is neither an icon nor a logo that fits. A brand without a logo and a
// color has none: the program's own mark serves there.
func (b Brand) Letter() string {
	if b.Icon.Name != "" || b.Logo.Name == "" && b.Color.Hex() == "" {
		return ""
	}
	return Initial(b.Name)
}

// InMail returns the picture of emails, or none. Mail programs do not show SVG.
func (b Brand) InMail() Logo {
	for _, picture := range []Logo{b.Icon, b.Logo} {
		if picture.Name != "" && picture.MediaType() == "image/png" {
			return picture
		}
	}
	return Logo{}
}

// Initial returns the first letter of a name, as a capital.
func Initial(name string) string {
	first, _ := utf8.DecodeRuneInString(name)
	return string(unicode.ToUpper(first))
}

// MaxPage is the maximum length of a page's address in characters.
const MaxPage = 2048

// IsPage reports whether users may be sent to an address: it uses https, has at most 2048 characters, and contains no credentials.
func IsPage(address string) bool {
	parsed, err := url.Parse(address)
	unseen := strings.ContainsFunc(address, func(c rune) bool { return c <= ' ' || c > '~' })
	return err == nil && parsed.Scheme == "https" && parsed.Host != "" && parsed.User == nil && len(address) <= MaxPage && !unseen
}

// IsSupport reports whether users may be sent to an address for help: a page, or mailto: with one address.
func IsSupport(address string) bool {
	recipient, isMail := strings.CutPrefix(address, "mailto:")
	if !isMail {
		return IsPage(address)
	}
	parsed, err := mail.ParseAddress(recipient)
	return err == nil && parsed.Address == recipient && !strings.ContainsAny(recipient, "?&%\"<> ")
}

// File is a file of a brand that pages load. Its name changes with its content.
type File struct {
	Name, MediaType string
	Content         []byte
}

// Style returns the name of the style sheet that replaces the pages' own color, or an empty string without a color.
func (b Brand) Style() string {
	css := b.Color.CSS()
	if css == "" {
		return ""
	}
	return fileName("brand-", []byte(css), ".css")
}

// Files returns the logos, the icon and the style sheet of the brand.
func (b Brand) Files() []File {
	var files []File
	for _, logo := range []Logo{b.Logo, b.OnDark(), b.Icon} {
		if logo.Name != "" {
			files = append(files, File{logo.Name, logo.MediaType(), logo.Content})
		}
	}
	if style := b.Style(); style != "" {
		files = append(files, File{style, "text/css; charset=utf-8", []byte(b.Color.CSS())})
	}
	return files
}

// fileName returns a name that changes with the content.
func fileName(prefix string, content []byte, extension string) string {
	sum := sha256.Sum256(content)
	return prefix + hex.EncodeToString(sum[:8]) + extension
}
