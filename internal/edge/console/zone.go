package console

import (
	"net/http"
	"regexp"
	"time"

	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/timezone"
)

// zoneCookie holds the name of the time zone in which an operator's browser shows times.
const zoneCookie = "connect-console-zone"

// setZone keeps the zone of the operator's browser. UTC shows times in UTC alone.
func (c *console) setZone(w http.ResponseWriter, r *http.Request) error {
	form, err := site.ReadForm(w, r, "zone")
	if err != nil {
		return err
	}
	name, known := timezone.Canonical(form["zone"])
	if !known {
		return done(Path, "zone_unknown")
	}
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // no secret
		Name: zoneCookie, Value: name, Path: Path, MaxAge: 400 * 24 * 3600, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
	return done(Path, "zone_set")
}

// zoneOf returns the name of the zone in which a request's page shows times. The portal has UTC.
func (c *console) zoneOf(r *http.Request) string {
	if cookie, err := r.Cookie(zoneCookie); err == nil && c.base == Path {
		if name, known := timezone.Canonical(cookie.Value); known {
			return name
		}
	}
	return "UTC"
}

// anInstant is what [instant] writes. Text that others wrote has no < on a page.
var anInstant = regexp.MustCompile(`<time datetime="([-0-9]{10}T[:0-9]{8}Z)">[-:0-9 ]{19}</time>`)

// zoned is an answer whose instants are in a zone, with UTC beside. A page is written whole.
type zoned struct {
	http.ResponseWriter
	zone *time.Location
}

func (z zoned) Write(page []byte) (int, error) {
	local := anInstant.ReplaceAllFunc(page, func(element []byte) []byte {
		at, err := time.Parse(time.RFC3339, string(anInstant.FindSubmatch(element)[1]))
		if err != nil {
			return element
		}
		there, form := at.In(z.zone), "15:04"
		if there.Day() != at.Day() {
			form = "2006-01-02 15:04"
		}
		return []byte(`<time datetime="` + at.Format(time.RFC3339) + `"><span>` + there.Format(time.DateTime) + `</span> <small>` + at.Format(form) + ` UTC</small></time>`)
	})
	if _, err := z.ResponseWriter.Write(local); err != nil {
		return 0, err
	}
	return len(page), nil
}
