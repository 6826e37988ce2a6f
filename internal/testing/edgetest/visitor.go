package edgetest

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
)

const formType = "application/x-www-form-urlencoded"

// Visitor is a browser without a screen: it keeps cookies, and follows no redirect by itself.
type Visitor struct {
	T      testing.TB
	Base   string // of the addresses that begin with a slash
	Client *http.Client
	Header http.Header // of every request; at first that of our own pages
	Look   func(Page)  // at every page; nil for nothing
}

// Page is a response that has been read.
type Page struct {
	*http.Response
	*goquery.Document
	Source string
}

// Visit opens a browser that finds the server at base, whatever the name there is.
func Visit(t testing.TB, server *httptest.Server, base string) *Visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := server.Client().Transport.(*http.Transport).Clone()
	if trusted := transport.TLSClientConfig; trusted != nil {
		transport.TLSClientConfig = &tls.Config{RootCAs: trusted.RootCAs, ServerName: "example.com"} // of its certificate
	}
	transport.DialTLSContext = nil
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &Visitor{T: t, Base: base, Header: http.Header{"Sec-Fetch-Site": {"same-origin"}}, Client: &http.Client{
		Jar: jar, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Send sends a request with a body of a type, empty for none.
func (v *Visitor) Send(method, path, contentType, body string) Page {
	v.T.Helper()
	if strings.HasPrefix(path, "/") {
		path = v.Base + path
	}
	request, err := http.NewRequestWithContext(v.T.Context(), method, path, strings.NewReader(body))
	if err != nil {
		v.T.Fatal(err)
	}
	maps.Copy(request.Header, v.Header)
	if method == http.MethodPost {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := v.Client.Do(request)
	if err != nil {
		v.T.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	source, err := io.ReadAll(response.Body)
	if err != nil {
		v.T.Fatal(err)
	}
	document, err := goquery.NewDocumentFromReader(bytes.NewReader(source))
	if err != nil {
		v.T.Fatal(err)
	}
	page := Page{response, document, string(source)}
	if v.Look != nil {
		v.Look(page)
	}
	return page
}

// Get opens a page.
func (v *Visitor) Get(path string) Page {
	v.T.Helper()
	return v.Send(http.MethodGet, path, "", "")
}

// Post sends a form: pairs of a name and a value.
func (v *Visitor) Post(path string, fields ...string) Page {
	v.T.Helper()
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Add(fields[i], fields[i+1])
	}
	return v.Send(http.MethodPost, path, formType, form.Encode())
}

// Location is where a page sends the browser on to. The test fails unless it does.
func (v *Visitor) Location(p Page) string {
	v.T.Helper()
	if p.StatusCode != http.StatusSeeOther {
		v.T.Fatalf("%s: status %d, want 303; page %q", p.Request.URL.Path, p.StatusCode, p.Find("title").Text())
	}
	return p.Header.Get("Location")
}

// Cookies are the browser's for the service, by name.
func (v *Visitor) Cookies(path string) map[string]*http.Cookie {
	v.T.Helper()
	cookies := map[string]*http.Cookie{}
	for _, cookie := range v.Client.Jar.Cookies(v.address(path)) {
		cookies[cookie.Name] = cookie
	}
	return cookies
}

// Give puts cookies into the browser, such as those of another one.
func (v *Visitor) Give(path string, cookies ...*http.Cookie) {
	v.T.Helper()
	v.Client.Jar.SetCookies(v.address(path), cookies)
}

func (v *Visitor) address(path string) *url.URL {
	v.T.Helper()
	address, err := url.Parse(v.Base + path)
	if err != nil {
		v.T.Fatal(err)
	}
	return address
}

// Change changes one thing of a request.
type Change = func(*Request)

// Set sets a field of the form, and Drop removes one.
func Set(name, value string) Change {
	return func(r *Request) {
		fields, _ := url.ParseQuery(r.Body)
		fields.Set(name, value)
		r.Body = fields.Encode()
	}
}

// Drop is the other one of [Set].
func Drop(name string) Change {
	return func(r *Request) {
		fields, _ := url.ParseQuery(r.Body)
		fields.Del(name)
		r.Body = fields.Encode()
	}
}

// Extend adds a text to the body.
func Extend(text string) Change { return func(r *Request) { r.Body += text } }

// Query adds a text to the address.
func Query(text string) Change { return func(r *Request) { r.Target += text } }

// Header replaces the values of a header; without values it removes the header.
func Header(name string, values ...string) Change {
	return func(r *Request) { r.Header[name] = values }
}

// All makes several changes.
func All(changes ...Change) Change {
	return func(r *Request) {
		for _, change := range changes {
			change(r)
		}
	}
}
