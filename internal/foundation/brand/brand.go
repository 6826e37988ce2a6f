// Package brand is how an operator or a partner looks to users: a name, a logo, an icon, a color, and pages for help and privacy.
//
// # Invariants
//
//   - A logo is never served as it was uploaded. A picture is decoded and encoded again (TestReadPicture), and only the shapes and
//     paints of a drawing are written, so that a logo can neither run nor load anything (TestDrawingIsHarmless).
//   - A logo is cheap to draw, whatever its file refers to (TestReadLogoRefuses).
//   - Every color is accepted, and all text is readable, in light and in dark pages (TestColorsCanBeRead).
package brand

import (
	"crypto/sha256"
	"encoding/hex"
	"net/mail"
	"net/url"
	"regexp"
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
	if b.Icon.Name != "" || b.Logo.Name == "" && b.Color.Hex == "" {
		return ""
	}
	return Initial(b.Name)
}

// InMail returns the picture of emails, or none where [Brand.Letter] stands for the brand. Mail programs do not show SVG.
func (b Brand) InMail() Logo {
	for _, picture := range []Logo{b.Icon, b.Logo} {
		if picture.Name != "" && picture.MediaType() == "image/png" {
			return picture
		}
	}
	if b.Letter() == "" && b.Icon.Name == "" {
		return mark()
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
	return err == nil && parsed.Scheme == "https" && parsed.Hostname() != "" && parsed.User == nil && len(address) <= MaxPage && !unseen
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
	css := b.Color.CSS
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
		files = append(files, File{style, "text/css; charset=utf-8", []byte(b.Color.CSS)})
	}
	return files
}

// fileName returns a name that changes with the content.
func fileName(prefix string, content []byte, extension string) string {
	sum := sha256.Sum256(content)
	return prefix + hex.EncodeToString(sum[:8]) + extension
}

var (
	comment = regexp.MustCompile(`(?s)/\*.*?\*/`)

	// selector matches elements only by name, class or id, which a browser compares at once.
	selector = regexp.MustCompile(`^\s*[.#]?[\w-]+(\s*,\s*[.#]?[\w-]+)*\s*$`)

	// declaration matches a property whose value has closed quotes, so that later text cannot become a part of it.
	declaration = regexp.MustCompile(`^\s*((?:` + properties + `)\s*:\s*(?:[^"'{}:]|"[^"{}\r\n\f]*"|'[^'{}\r\n\f]*')+?)\s*$`)

	clipped = regexp.MustCompile(`^(clip|mask)`)
)

// harmless reports whether a style or a value loads nothing.
func harmless(value string) bool { return !harmful.MatchString(reference.ReplaceAllString(value, "")) }

// declarations returns the known declarations of a style.
func declarations(style string) string {
	var kept []string
	for text := range strings.SplitSeq(style, ";") {
		if match := declaration.FindStringSubmatch(text); match != nil && harmless(match[1]) {
			kept = append(kept, match[1])
		}
	}
	return strings.Join(kept, ";")
}

// sheet returns the rules of a style sheet that have plain selectors. It drops masks and clips, which would apply to every selected
// element.
func (d *drawing) sheet(text string) string {
	text = comment.ReplaceAllString(text, " ")
	if !harmless(text) {
		return ""
	}
	var kept strings.Builder
	for rule := range strings.SplitSeq(text, "}") {
		chosen, body, _ := strings.Cut(rule, "{")
		if !selector.MatchString(chosen) {
			continue
		}
		var looks []string
		for look := range strings.SplitSeq(declarations(body), ";") {
			if look != "" && !clipped.MatchString(look) {
				looks = append(looks, look)
			}
		}
		look := strings.Join(looks, ";")
		for _, named := range reference.FindAllStringSubmatch(look, -1) {
			d.paints = append(d.paints, named[1])
		}
		d.rules += 1 + strings.Count(chosen, ",")
		kept.WriteString(strings.TrimSpace(chosen) + "{" + look + "}")
	}
	return kept.String()
}
