package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sync/errgroup"
)

const (
	responseLimit = 10 * time.Second // longer than the service takes for any response
	// warmUp opens the service's connections to the database and prepares their statements.
	warmUp = 250 * time.Millisecond
	settle = time.Second // before a measurement
)

// endpoint is where a server listens; without roots it speaks plain HTTP.
type endpoint struct {
	address string
	roots   *x509.CertPool
}

// client asks over so many connections at most. fasthttp takes less of the processors that are being measured than the
// client of net/http.
func (e endpoint) client(connections int) *fasthttp.HostClient {
	return &fasthttp.HostClient{
		Addr: e.address, MaxConns: connections, MaxConnWaitTimeout: responseLimit, MaxIdemponentCallAttempts: 1,
		ConnPoolStrategy: fasthttp.FIFO, // so that none is idle for long
		ReadTimeout:      responseLimit, WriteTimeout: responseLimit, ReadBufferSize: 64 << 10,
		IsTLS: e.roots != nil, TLSConfig: &tls.Config{RootCAs: e.roots, ServerName: "localhost", MinVersion: tls.VersionTLS13},
		Dial: func(address string) (net.Conn, error) { return net.DialTimeout("tcp", address, responseLimit) },
	}
}

// request is a POST where it has a form, and a GET otherwise, unless it says another method.
type request struct{ path, authorization, form, method, cookie, from string } // from is the address that a proxy would tell of

func (r request) verb() string {
	switch {
	case r.method != "":
		return r.method
	case r.form != "":
		return http.MethodPost
	}
	return http.MethodGet
}

func (r request) headers() map[string]string {
	headers := map[string]string{}
	for name, value := range map[string]string{"Authorization": r.authorization, "Cookie": r.cookie, "X-Forwarded-For": r.from} {
		if value != "" {
			headers[name] = value
		}
	}
	if r.form != "" || r.method == http.MethodPost {
		headers["Content-Type"] = "application/x-www-form-urlencoded"
	}
	return headers
}

// discovery is the request for a page that costs the service nothing but HTTP.
var discovery = request{path: "/.well-known/oauth-authorization-server"}

// authorizeRequest is for a page that anybody can ask for, and that stores a request. state is how many characters its state has.
func authorizeRequest(client, state int) request {
	return request{path: "/oauth/authorize?" + url.Values{
		"client_id": {clientID(client).String()}, "redirect_uri": {callback}, "response_type": {"code"}, "scope": {"daily_steps:read"},
		"state": {strings.Repeat("s", state)}, "code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}.Encode()}
}

func readRequest(path, accessToken string) request {
	return request{path: path, authorization: "Bearer " + accessToken}
}

func formRequest(path string, client int, form string) request {
	credentials := base64.StdEncoding.EncodeToString([]byte(clientID(client).String() + ":" + secret))
	return request{path: path, authorization: "Basic " + credentials, form: form}
}

func refreshRequest(client int, refreshToken string) request {
	return formRequest("/oauth/token", client, "grant_type=refresh_token&refresh_token="+refreshToken)
}

func exchangeRequest(client int, code string) request {
	return formRequest("/oauth/token", client, "grant_type=authorization_code&code="+code+
		"&redirect_uri="+url.QueryEscape(callback)+"&code_verifier="+verifier)
}

// send sends a request, whose status is 0 where no response comes. response may be nil.
func send(client *fasthttp.HostClient, r request, response *fasthttp.Response) (status int, err error) {
	if response == nil {
		response = &fasthttp.Response{}
	}
	message := fasthttp.AcquireRequest()
	defer fasthttp.ReleaseRequest(message)
	scheme := "http"
	if client.IsTLS {
		scheme = "https"
	}
	message.SetRequestURI(scheme + "://localhost" + r.path)
	for name, value := range r.headers() {
		message.Header.Set(name, value)
	}
	message.Header.SetMethod(r.verb())
	message.SetBodyString(r.form)
	if err := client.Do(message, response); err != nil {
		return 0, err
	}
	return response.StatusCode(), nil
}

// load is what so many connections send, each one request after the other.
type load struct {
	connections int
	requests    source
	// warm sends for a moment before the measurement: only where requests may be sent again and again.
	warm bool
	// anyStatus counts all statuses. Otherwise each response must have status 200.
	anyStatus bool
}

// source returns the next request of the n-th connection, or false when there are no more. body is that of the
// connection's last response.
type source func(n int, body []byte) (next request, more bool)

func inTurns(requests ...request) source {
	var sent atomic.Int64
	return func(int, []byte) (request, bool) { return requests[int(sent.Add(1)-1)%len(requests)], true }
}

func eachOnce(requests []request) source {
	var sent atomic.Int64
	return func(int, []byte) (next request, more bool) {
		if n := int(sent.Add(1) - 1); n < len(requests) {
			return requests[n], true
		}
		return next, false
	}
}

// chains refreshes the n-th of some connections of one client on the n-th connection of the loop, with the token of the
// last response.
func chains(connections []connection) source {
	return func(n int, body []byte) (request, bool) {
		c := &connections[n]
		_ = c.take(body) // the first has no response before it
		return refreshRequest(c.client, c.RefreshToken), true
	}
}

// callers are the connections of a load.
type callers []*caller

type caller struct {
	load
	n        int
	client   *fasthttp.HostClient
	response fasthttp.Response // the last one
	sample   sample
}

// connect connects the callers to the servers in turns, and warms up the service.
func (l load) connect(servers ...endpoint) (c callers, err error) {
	for n := range l.connections {
		one := &caller{load: l, n: n, client: servers[n%len(servers)].client(1)}
		if _, err := send(one.client, discovery, nil); err != nil {
			return nil, err
		}
		c = append(c, one)
	}
	if l.warm {
		_, err = c.run(warmUp)
	}
	return c, err
}

// run connects, calls begin, and lets the callers send for a duration.
func (l load) run(duration time.Duration, begin func(), servers ...endpoint) (sample, error) {
	callers, err := l.connect(servers...)
	if err != nil {
		return sample{}, err
	}
	defer callers.close()
	begin()
	return callers.run(duration)
}

// run lets each caller send one request after the other for a duration, or until there are no more.
func (c callers) run(duration time.Duration) (sample, error) {
	var group errgroup.Group
	start, cpu := time.Now(), ownCPU()
	for _, caller := range c {
		group.Go(func() error { return caller.run(start.Add(duration)) })
	}
	err := group.Wait()
	all := sample{Statuses: map[int]int{}, Elapsed: time.Since(start), CPU: ownCPU() - cpu}
	for _, caller := range c {
		all.merge(caller.sample)
	}
	return all, err
}

func (c callers) close() {
	for _, caller := range c {
		caller.client.CloseIdleConnections()
	}
}

func (c *caller) run(end time.Time) error {
	c.sample = sample{Statuses: map[int]int{}}
	for time.Now().Before(end) {
		next, more := c.requests(c.n, c.response.Body())
		if !more {
			break
		}
		sent := time.Now()
		status, err := send(c.client, next, &c.response)
		c.sample.add(status, time.Since(sent))
		if !c.anyStatus && status != http.StatusOK {
			return errors.Join(fmt.Errorf("status %d, want 200: %s", status, c.response.Body()), err)
		}
	}
	c.sample.BodySize = len(c.response.Body())
	return nil
}

// until waits for an instant, and says whether it came before stop.
func until(at time.Time, stop <-chan struct{}) bool {
	select {
	case <-time.After(time.Until(at)):
		return true
	case <-stop:
		return false
	}
}
