package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"time"

	"connect-svc/internal/local/mailcatcher"
)

// visitors are users in their browsers, each in a network of its own: some go from the authorization to the exchange of the
// code, and one looks at the account pages.
type visitors struct {
	server endpoint
	mail   *mail
	first  int  // of the users who have not signed in yet
	launch bool // a launcher fetches the sandbox's program meanwhile

	stop    chan struct{}
	running sync.WaitGroup
	mu      sync.Mutex // protects sample
	sample  sample
}

const (
	visitorsAtOnce = 3
	accountEvery   = 100 * time.Millisecond
	floodPartner   = firstPair // whom they connect with, and whom strangers pretend to be
)

func (v *visitors) begin(ctx context.Context) {
	v.stop, v.sample = make(chan struct{}), sample{Statuses: map[int]int{}}
	for range visitorsAtOnce {
		v.mu.Lock()
		number := v.first
		v.first++
		v.mu.Unlock()
		v.running.Go(func() { v.authorize(ctx, number) })
	}
	number := v.first
	v.first++
	v.running.Go(func() { v.look(ctx, number) })
	if v.launch {
		v.running.Go(func() { v.fetch(ctx) })
	}
}

// end adds what the users have met to the sample of the partners: the latencies of the account page, and everything that failed.
func (v *visitors) end(of sample) sample {
	close(v.stop)
	v.running.Wait()
	of.merge(v.sample)
	return of
}

func (v *visitors) fails(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sample.Statuses[0]++
	v.sample.Latencies = append(v.sample.Latencies, responseLimit)
	fmt.Println(err)
}

type visitor struct {
	*http.Client
	from, email string
	mail        *mail
}

func (v *visitors) visitor(number int) *visitor {
	jar, _ := cookiejar.New(nil) // without options it has no error
	return &visitor{
		from: fmt.Sprintf("192.0.%d.%d", number/250%250, number%250), email: fmt.Sprint(number, "@user.example"), mail: v.mail,
		Client: v.server.browser(jar),
	}
}

func (v *visitors) authorize(ctx context.Context, number int) {
	if err := v.visitor(number).connect(ctx); err != nil {
		v.fails(fmt.Errorf("a user who connects: %w", err))
	}
}

// connect goes from the authorization to the callback, and has the partner exchange the code.
func (v *visitor) connect(ctx context.Context) error {
	defer v.CloseIdleConnections()
	base, err := v.ask(ctx, authorizeRequest(floodPartner, 22), http.StatusSeeOther)
	if err != nil {
		return err
	}
	base = strings.TrimSuffix(base, "/sign-in")
	if err := v.signIn(ctx, base); err != nil {
		return err
	}
	if _, err := v.ask(ctx, request{path: base + "/consent"}, http.StatusOK); err != nil {
		return err
	}
	location, err := v.ask(ctx, request{path: base + "/consent", form: "decision=allow"}, http.StatusSeeOther)
	if err != nil {
		return err
	}
	_, code, allowed := strings.Cut(location, "&code=")
	if !allowed {
		return errors.New("allowing leads elsewhere")
	}
	_, err = v.ask(ctx, exchangeRequest(floodPartner, code), http.StatusOK)
	return err
}

func (v *visitors) look(ctx context.Context, number int) {
	browser := v.visitor(number)
	defer browser.CloseIdleConnections()
	if err := browser.signIn(ctx, "/account"); err != nil {
		v.fails(fmt.Errorf("a user who signs in: %w", err))
		return
	}
	for due := time.Now(); until(due, v.stop); due = due.Add(accountEvery) {
		_, err := browser.ask(ctx, request{path: "/account"}, http.StatusOK)
		if err != nil {
			v.fails(fmt.Errorf("a user who looks: %w", err))
			return
		}
		v.mu.Lock()
		v.sample.add(http.StatusOK, time.Since(due))
		v.mu.Unlock()
	}
}

// fetch fetches parts of the sandbox's program, as a launcher of a partner that is broken off again and again.
func (v *visitors) fetch(ctx context.Context) {
	client := v.server.browser(nil)
	defer client.CloseIdleConnections()
	for due := time.Now(); until(due, v.stop); due = due.Add(time.Second) {
		answer, err := getProgram(ctx, client, "203.0.113.200", "bytes=0-1048575")
		if err == nil {
			var n int64
			if n, err = io.Copy(io.Discard, answer.Body); err == nil && n != 1<<20 {
				err = fmt.Errorf("%s, %d bytes", answer.Status, n)
			}
			_ = answer.Body.Close()
		}
		if err != nil {
			v.fails(fmt.Errorf("a launcher: %w", err))
			return
		}
	}
}

// getProgram asks for the sandbox's program, or a part of it.
func getProgram(ctx context.Context, client *http.Client, from, part string) (*http.Response, error) {
	message, err := request{path: "/developers/sandbox/connect-svc_" + runtime.GOOS + "_" + runtime.GOARCH, from: from}.http(baseURL)
	if err != nil {
		return nil, err
	}
	if part != "" {
		message.Header.Set("Range", part)
	}
	return client.Do(message.WithContext(ctx))
}

func (v *visitor) signIn(ctx context.Context, base string) error {
	if _, err := v.ask(ctx, request{path: base + "/sign-in"}, http.StatusOK); err != nil {
		return err
	}
	if _, err := v.ask(ctx, request{path: base + "/sign-in", form: "email=" + url.QueryEscape(v.email)}, http.StatusSeeOther); err != nil {
		return err
	}
	if _, err := v.ask(ctx, request{path: base + "/code"}, http.StatusOK); err != nil {
		return err
	}
	code, err := v.mail.codeFor(ctx, v.email)
	if err != nil {
		return err
	}
	_, err = v.ask(ctx, request{path: base + "/code", form: "code=" + code}, http.StatusSeeOther)
	return err
}

// ask returns where the response leads. A response with another status than the one wanted is an error.
func (v *visitor) ask(ctx context.Context, r request, want int) (location string, err error) {
	r.from = v.from
	message, err := r.http(baseURL)
	if err != nil {
		return "", err
	}
	message.Header.Set("Sec-Fetch-Site", "same-origin")
	response, err := v.Do(message.WithContext(ctx))
	if err != nil {
		return "", err
	}
	defer drain(response)
	if response.StatusCode != want {
		return "", fmt.Errorf("%s %s: status %d, want %d", message.Method, message.URL.Path, response.StatusCode, want)
	}
	return response.Header.Get("Location"), nil
}

// http is the request for package net/http.
func (r request) http(base string) (*http.Request, error) {
	message, err := http.NewRequest(r.verb(), base+r.path, strings.NewReader(r.form))
	if err != nil {
		return nil, err
	}
	for name, value := range r.headers() {
		message.Header.Set(name, value)
	}
	return message, nil
}

func drain(response *http.Response) {
	_, _ = io.Copy(io.Discard, response.Body) // so that the connection can be used again
	_ = response.Body.Close()
}

// browser is a client that finds the server, whatever the name, and follows no redirect: with a jar for cookies that of a visitor,
// without one that of a flood, over HTTP/2.
func (e endpoint) browser(jar http.CookieJar) *http.Client {
	return &http.Client{
		Jar: jar, Timeout: responseLimit,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			ForceAttemptHTTP2: jar == nil,
			TLSClientConfig:   &tls.Config{RootCAs: e.roots, ServerName: "localhost", MinVersion: tls.VersionTLS13},
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, e.address)
			},
		},
	}
}

// mail is a mail server that hands codes to those who wait for them.
type mail struct {
	address string

	mu      sync.Mutex
	waiting map[string]chan string
}

func (s *stage) startMail() (*mail, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &mail{address: listener.Addr().String(), waiting: map[string]chan string{}}
	catcher := &mailcatcher.Catcher{Config: mailcatcher.Config{OnEmail: m.deliver}}
	s.running.Go(func() { _ = catcher.ServeSMTP(s.life, listener, slog.New(slog.DiscardHandler)) }) // ends with the stage
	return m, nil
}

func (m *mail) box(address string) chan string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting[address] == nil {
		m.waiting[address] = make(chan string, 10)
	}
	return m.waiting[address]
}

func (m *mail) deliver(email mailcatcher.Email) {
	select {
	case m.box(strings.Join(email.To, ",")) <- email.Code:
	default: // nobody waits for so many
	}
}

func (m *mail) codeFor(ctx context.Context, address string) (string, error) {
	select {
	case code := <-m.box(address):
		return code, nil
	case <-time.After(responseLimit):
		return "", fmt.Errorf("no email came within %v", responseLimit)
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
