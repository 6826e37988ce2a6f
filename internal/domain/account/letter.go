package account

import (
	"errors"
	htmltemplate "html/template"
	"strings"
	"text/template"

	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/locale"
)

// The two parts of a letter.
var (
	plainLetter = template.Must(template.ParseFS(templates, "templates/letter.txt"))
	richLetter  = htmltemplate.Must(htmltemplate.ParseFS(templates, "templates/letter.html", "templates/frame.html"))
)

// Letter is the content of an email without a code, in plain text and in one language.
type Letter struct {
	To      string // the address
	In      *locale.Locale
	Subject string
	Says    string // the first paragraph
	Facts   []Fact
	Link    string // of the page where the recipient can act
	Why     string // the paragraph before the link
	Closing string // the last paragraph
}

// Fact is a line of a letter, such as "Browser: Firefox (Linux)".
type Fact struct{ Name, Value string }

// email returns the email in its language.
func (l Letter) email(of brand.Brand) (email, error) {
	values := struct {
		*locale.Locale
		Letter
		Brand brand.Brand
	}{l.In, l, of}
	var text, html strings.Builder
	err := errors.Join(plainLetter.Execute(&text, values), richLetter.Execute(&html, values))
	return email{l.To, l.Subject, text.String(), html.String(), l.In, of}, err
}
