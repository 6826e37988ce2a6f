//go:build faults

package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connect-svc/internal/foundation/work"
	"github.com/google/uuid"
)

const (
	floodConnections = 900
	// floodStreams is how many requests at a time a connection of HTTP/2 carries.
	floodStreams = 15
	networks     = 1000 // of strangers, where they are many
	// downloadsEach is how many downloads one network holds, or tries to.
	downloadsEach = 8
)

// strangers are who floods.
type strangers struct {
	name  string
	many  bool // from a thousand networks; else from one
	http2 bool
	// networks that download, with downloadsEach under way
	networks int
}

var whoFloods = []strangers{{name: "one network, HTTP/1.1"}, {name: "a thousand networks, HTTP/2", many: true, http2: true}}

// whoDownloads are strangers that hold as many downloads as they get.
var whoDownloads = []strangers{{name: "two networks, HTTP/1.1", networks: 2}, {name: "eight networks, HTTP/2", networks: 8, http2: true}}

// flood is a request that anybody can send, and what makes one unlike another.
type flood struct {
	name  string
	fresh bool // at a server that has just started
	next  func(n int) request
	takes int // bytes of a download, before a pause of 100 ms; 0: not a download
}

// floods ask for every public route in the ways that cost the service most, and for these files. Routes that cost alike take turns.
// begun is the cookie of a sign-in to the account pages that somebody has begun.
func floods(files []string, begun string) []flood {
	authorize := authorizeRequest(floodPartner, 2048).path
	guess := func(n int) string { // of secrets: of one client, and of clients that nobody has
		id := clientID(floodPartner).String()
		if n%2 == 0 {
			id = uuid.NewString()
		}
		return "Basic " + base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s:svci_%d", id, n))
	}
	turns := func(requests ...func(n int) request) func(int) request {
		return func(n int) request { return requests[n%len(requests)](n / len(requests)) }
	}
	get := func(paths ...string) func(int) request {
		return func(n int) request { return request{path: paths[n%len(paths)]} }
	}
	post := func(form string, paths ...string) func(int) request {
		return func(n int) request { return request{path: paths[n%len(paths)], form: form} }
	}
	token := func(n int) request {
		return request{path: "/oauth/token", authorization: guess(n), form: fmt.Sprint("grant_type=refresh_token&refresh_token=svcr2_", n)}
	}
	unknown := "/authorize/" + uuid.NewString()
	link := "/link/" + strings.Repeat("A", 43)
	disconnect := "/account/connections/" + clientID(floodPartner).String() + "/disconnect"
	return []flood{
		{name: "secrets of refreshes, at a fresh server", fresh: true, next: token},
		{name: "secrets of refreshes", next: token},
		{name: "secrets of exchanges", next: func(n int) request {
			return request{path: "/oauth/token", authorization: guess(n), form: fmt.Sprint("grant_type=authorization_code&code=svcc_", n,
				"&redirect_uri=", url.QueryEscape(callback), "&code_verifier=", verifier)}
		}},
		{name: "secrets of revocations", next: func(n int) request {
			return request{path: "/oauth/revoke", authorization: guess(n), form: fmt.Sprint("token=svcr2_", n)}
		}},
		{name: "secrets of disconnects", next: func(n int) request {
			return request{method: http.MethodDelete, path: "/connect-svc/v1/customer/grants/" + uuid.NewString(), authorization: guess(n)}
		}},
		{name: "malformed forms", next: func(n int) request {
			return request{path: "/oauth/token?x", authorization: guess(n), form: "grant_type=refresh_token"}
		}},
		{name: "access tokens", next: func(n int) request {
			dataset := []string{"daily-activity", "cycling-daily", "cycling-activities"}[n%3]
			return request{path: "/connect-svc/v1/grants/" + uuid.NewString() + "/" + dataset, authorization: fmt.Sprint("Bearer svca_", n)}
		}},
		{name: "authorize", next: get(authorize)},
		{name: "authorize, wrong", next: func(n int) request {
			return request{path: strings.Replace(authorize, clientID(floodPartner).String(), uuid.NewString(), 1)}
		}},
		{name: "pages of no request", next: get(unknown+"/sign-in", unknown+"/code", unknown+link, unknown+"/consent", unknown+"/cancel")},
		{name: "forms of no request", next: turns(
			post("email=a%40nobody.example", unknown+"/sign-in"), post("code=123456", unknown+"/code"),
			post("decision=allow", unknown+"/consent"), post("x=y", unknown+"/new-code", unknown+link, unknown+"/restart"),
		)},
		{name: "codes by mail", next: func(n int) request {
			return request{path: "/account/sign-in", form: fmt.Sprintf("email=%d%%40nobody.example", n)}
		}},
		{name: "pages of the account", next: func(n int) request {
			return request{
				path:   []string{"/account", "/account/sign-in", "/account/code", "/account" + link, disconnect, "/"}[n%6],
				cookie: "__Host-connect-account=" + strings.Repeat("A", 100+n%50),
			}
		}},
		{name: "forms of the account", next: func(n int) request {
			form := ""
			if n%6 == 0 {
				form = "code=123456"
			}
			return request{
				method: http.MethodPost, form: form,
				path:   []string{"/account/code", "/account/new-code", "/account" + link, "/account/sign-out", "/account/browsers", disconnect}[n%6],
				cookie: "__Host-connect-account=" + strings.Repeat("A", 100+n%50) + "; " + begun,
			}
		}},
		{name: "files", next: get(files...)},
		{name: "developers", next: get("/developers/", "/developers/openapi.yaml", "/developers/quick-start.html", "/developers/nothing")},
		{name: "slow downloads", takes: 1 << 10},
		{name: "fast downloads", takes: 1 << 30},
		{name: "wrong paths", next: func(n int) request { return request{path: fmt.Sprint("/", n)} }},
	}
}

// testFloods starts a server behind a proxy, and has a test of each public route that strangers flood, as somebody without any credential can.
func testFloods(t *testing.T, s *stage) {
	ctx := s.life
	must(t, s.openDatabase(ctx))
	must(t, s.exec(ctx, "insert into user_addresses (address, user_id, email) select email, user_id, email from users",
		"insert into client_logos (client_id, logo, content) values ("+theClient(floodPartner)+", 'logo.svg', '<svg xmlns=\"http://www.w3.org/2000/svg\"/>')"))
	mail, err := s.startMail()
	must(t, err)
	environ := []string{"CONNECT_SMTP_URL=smtp://" + mail.address, "CONNECT_TRUSTED_PROXIES=127.0.0.0/8"}
	s.tls, err = s.serve(ctx, "floods", true, environ...)
	must(t, err)
	files, err := filesOf(ctx, s.tls.endpoint)
	must(t, err)
	begun, err := beginSignIn(ctx, s.tls.endpoint)
	must(t, err)
	outcomes := outcomes{file: "bin/floods.json"}
	list := floods(files, begun)
	for n, flood := range list {
		who := whoFloods
		if flood.takes > 0 {
			who = whoDownloads
		}
		for m, who := range who {
			beside := besideFlood{stage: s, mail: mail, flood: flood, who: who, environ: environ, number: n*len(whoFloods) + m}
			outcomes.of(t, flood.name+", "+who.name, func() (*outcome, error) {
				measured, err := beside.measure(ctx, s.duration())
				if err != nil || measured.OthersErrors > 0 || len(measured.Broken) == 0 {
					return measured, err
				}
				// The p99 of a short measurement is that of a few requests. A longer one, of users and connections of its own, decides.
				beside.number += len(list) * len(whoFloods)
				return beside.measure(ctx, 6*s.duration())
			})
		}
	}
	must(t, outcomes.write(os.Stdout))
}

// beginSignIn asks for a code to sign in to the account pages. It returns the cookie.
func beginSignIn(ctx context.Context, server endpoint) (string, error) {
	client := server.browser(nil)
	defer client.CloseIdleConnections()
	message, err := request{path: "/account/sign-in", form: "email=stranger%40nobody.example"}.http(baseURL)
	if err != nil {
		return "", err
	}
	response, err := client.Do(message.WithContext(ctx))
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	for _, cookie := range response.Cookies() {
		if cookie.Name == "__Host-connect-sign-in" {
			return cookie.Name + "=" + cookie.Value, nil
		}
	}
	return "", fmt.Errorf("%s without the cookie of a sign-in", response.Status)
}

// filesOf are the files that the sign-in page names, a partner's logo, and files that do not exist.
func filesOf(ctx context.Context, server endpoint) ([]string, error) {
	client := server.browser(nil)
	defer client.CloseIdleConnections()
	page, err := get(ctx, client, baseURL+"/account/sign-in")
	if err != nil {
		return nil, err
	}
	files := regexp.MustCompile(`/static/[^"]+`).FindAllString(string(page), -1)
	if len(files) == 0 {
		return nil, errors.New("the sign-in page names no file")
	}
	partner := "/static/partners/" + clientID(floodPartner).String()
	return append(files, partner+"/logo.svg", partner+"/nothing.png", "/static/nothing.css"), nil
}

type besideFlood struct {
	*stage
	mail    *mail
	flood   flood
	who     strangers
	environ []string
	number  int // of the measurement
}

// measure is like that of the isolation of partners. The others also are users, of networks of their own: one who looks at the account
// pages again and again, and some who go from the authorization to the callback. A request of theirs that fails is an error, too.
func (b *besideFlood) measure(ctx context.Context, duration time.Duration) (*outcome, error) {
	connected, err := b.connectFrom(ctx, b.number*otherGrants, otherGrants, partnerB)
	if err != nil {
		return nil, err
	}
	server := b.tls
	if b.flood.fresh {
		if server, err = b.serve(ctx, fmt.Sprint("fresh", b.number), true, b.environ...); err != nil {
			return nil, err
		}
		defer func() { _ = server.Process.Signal(os.Interrupt) }()
	}
	o := &outcome{Connections: b.connections()}
	send := b.send
	if b.flood.takes > 0 {
		send = b.download
	}
	m := measurements{
		others:   newOthers(server.endpoint, connected),
		visitors: &visitors{server: server.endpoint, mail: b.mail, first: users/2 + b.number*100, launch: b.flood.takes > 0},
		seconds:  duration,
		fresh:    b.flood.fresh,
	}
	return o, m.take(ctx, o, 0, func(begin func()) error { return send(server.endpoint, duration, b.flood.next, begin, o) }, func(begin func()) error {
		return b.send(server.endpoint, duration, func(int) request { return discovery }, begin, new(outcome))
	})
}

// connections is how many the flood has, and the reference beside it.
func (b *besideFlood) connections() int {
	if b.flood.takes > 0 {
		return b.who.networks * downloadsEach
	}
	return floodConnections
}

// download holds downloads for a time. One that is refused or broken off is begun again.
func (b *besideFlood) download(server endpoint, duration time.Duration, _ func(int) request, begin func(), o *outcome) error {
	ctx, stop := context.WithTimeout(b.life, duration)
	defer stop()
	o.Statuses = map[int]int{}
	var mu sync.Mutex
	var group, asked sync.WaitGroup
	for n := range b.connections() {
		asked.Add(1)
		first := sync.OnceFunc(asked.Done)
		var jar http.CookieJar // without one, over HTTP/2
		if !b.who.http2 {
			jar, _ = cookiejar.New(nil) // without options it has no error
		}
		client := server.browser(jar)
		client.Timeout = 0
		defer client.CloseIdleConnections()
		group.Go(func() {
			for pause := time.Duration(0); work.Pause(ctx, pause); pause = 100 * time.Millisecond {
				answer, err := getProgram(ctx, client, fmt.Sprintf("203.0.113.%d", n%b.who.networks), "")
				first()
				if err != nil {
					continue
				}
				mu.Lock()
				o.Statuses[answer.StatusCode]++
				mu.Unlock()
				for err == nil && work.Pause(ctx, pause) {
					_, err = io.CopyN(io.Discard, answer.Body, int64(b.flood.takes))
				}
				_ = answer.Body.Close()
			}
		})
	}
	asked.Wait()
	begin()
	group.Wait()
	o.Seconds = duration.Seconds()
	return nil
}

// send sends the flood for a time, and counts its answers.
func (b *besideFlood) send(server endpoint, duration time.Duration, next func(int) request, begin func(), o *outcome) error {
	var sent atomic.Int64
	requests := func() request {
		n := int(sent.Add(1))
		r := next(n)
		r.from = "203.0.113.1"
		if b.who.many {
			r.from = fmt.Sprintf("198.18.%d.%d", n%networks/250, n%networks%250)
		}
		return r
	}
	var all sample
	var err error
	if b.who.http2 {
		all = b.sendStreams(server, duration, requests, begin)
	} else {
		l := load{connections: b.connections(), requests: func(int, []byte) (request, bool) { return requests(), true }, anyStatus: true}
		all, err = l.run(duration, begin, server)
	}
	o.Statuses, o.Seconds = all.Statuses, all.Elapsed.Seconds()
	return err
}

// sendStreams sends over connections of HTTP/2, each of which has several requests under way.
func (b *besideFlood) sendStreams(server endpoint, duration time.Duration, requests func() request, begin func()) sample {
	all := sample{Statuses: map[int]int{}}
	var mu sync.Mutex
	var group sync.WaitGroup
	begin()
	began := time.Now()
	end := began.Add(duration)
	for range b.connections() / floodStreams {
		client := server.browser(nil)
		defer client.CloseIdleConnections()
		for range floodStreams {
			group.Go(func() {
				own := sample{Statuses: map[int]int{}}
				for time.Now().Before(end) {
					own.Statuses[sendHTTP2(client, requests())]++
				}
				mu.Lock()
				defer mu.Unlock()
				all.merge(own)
			})
		}
	}
	group.Wait()
	all.Elapsed = time.Since(began)
	return all
}

// sendHTTP2 is the status of the response, 0 where there is none.
func sendHTTP2(client *http.Client, r request) int {
	message, err := r.http(baseURL)
	if err != nil {
		return 0
	}
	response, err := client.Do(message)
	if err != nil {
		return 0
	}
	defer drain(response)
	return response.StatusCode
}
