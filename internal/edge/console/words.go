package console

import (
	"html/template"
	"math"
	"net/http"
	"strings"
	"time"

	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"golang.org/x/text/number"

	"connect-svc/internal/foundation/locale"
)

func newWriter(loc *locale.Locale) writer {
	return writer{loc, message.NewPrinter(language.Make(loc.Tag))}
}

// writer returns the writer in the language of a request.
func (c *console) writer(r *http.Request) writer { return newWriter(c.site.Locale(r)) }

// parts lists the entries of the navigation. The home page is the empty one.
var parts = []string{"", "users", "partners", "service", "audit"}

// writer formats numbers in a language, and instants in UTC, whose format is the same in every language.
type writer struct {
	*locale.Locale
	printer *message.Printer
}

// signed writes a number with its sign: +1,200 or −2,000.
func (w writer) signed(n int) string {
	if n < 0 {
		return "−" + w.Number(-n)
	}
	return "+" + w.Number(n)
}

// decimal writes a number with at most one digit after the point, and none from 10 on.
func (w writer) decimal(x float64) string {
	digits := 1
	if math.Abs(x) >= 9.95 {
		digits = 0
	}
	return w.printer.Sprint(number.Decimal(x, number.MaxFractionDigits(digits), number.MinFractionDigits(0)))
}

// percent writes a share. Only zero is 0 %.
func (w writer) percent(share float64) string {
	if share > 0 && share < .001 {
		return "< " + w.printer.Sprint(number.Percent(.001, number.MaxFractionDigits(1)))
	}
	digits := 1
	if share >= .0995 {
		digits = 0
	}
	return w.printer.Sprint(number.Percent(share, number.MaxFractionDigits(digits)))
}

// took writes the time to answer: – without requests, and ≥ 10 s from ten seconds on.
func (w writer) took(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case d == 0:
		return "–"
	case d >= 10*time.Second:
		return "≥ 10 s"
	case ms >= 999.5:
		return w.decimal(ms/1000) + " s"
	default:
		return w.decimal(ms) + " ms"
	}
}

// lasted writes a duration that was measured in whole milliseconds.
func (w writer) lasted(d time.Duration) string {
	if d < time.Millisecond {
		return "< 1 ms"
	}
	return w.took(d)
}

// size writes bytes in the largest unit that gives at least 1.
func (w writer) size(bytes int64) string {
	value, unit := float64(bytes), 0
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	return w.decimal(value) + " " + units[unit]
}

// duration writes a duration in the largest unit that gives at least 2.
func (w writer) duration(d time.Duration) string {
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}} {
		if d >= 2*unit.of {
			return w.Number(int64(d/unit.of)) + " " + unit.name
		}
	}
	return w.Number(int64(max(d, 0)/time.Second)) + " s"
}

// codes returns a text with backquotes as HTML.
func codes(text string) template.HTML {
	var html strings.Builder
	for i, part := range strings.Split(text, "`") {
		if i%2 == 1 {
			html.WriteString("<code>" + template.HTMLEscapeString(part) + "</code>")
		} else {
			html.WriteString(template.HTMLEscapeString(part))
		}
	}
	return template.HTML(html.String()) //nolint:gosec // escaped
}

// instant writes an instant in UTC as a time element.
func instant(t time.Time) template.HTML {
	t = t.UTC()
	return template.HTML(`<time datetime="` + t.Format(time.RFC3339) + `">` + t.Format("2006-01-02 15:04:05") + `</time>`) //nolint:gosec // digits
}

// date writes a calendar day as a time element.
func date(t time.Time) template.HTML {
	day := t.Format(time.DateOnly)
	return template.HTML(`<time datetime="` + day + `">` + day + `</time>`) //nolint:gosec // digits
}

// hour writes the beginning of an hour in UTC.
func hour(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }
