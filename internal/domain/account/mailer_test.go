package account

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/wneessen/go-mail"

	"connect-svc/internal/foundation/locale"
	"connect-svc/internal/testing/mailtest"
)

func TestEmail(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	b.user(t, "ada@example.com")
	if err := b.send(uuid.New(), "ada@example.com"); err != nil {
		t.Fatal(err)
	}
	email := b.post.Next(t)
	if email.From != "connect@service.example" || email.To[0] != "ada@example.com" {
		t.Errorf("envelope from %q to %q", email.From, email.To)
	}
	code := email.Code
	if code == "" {
		t.Fatalf("no code alone on a line of the text:\n%s", email.Text)
	}
	for name, want := range map[string]string{
		"From": `"Activity Connect" <connect@service.example>`, "To": "<ada@example.com>",
		"Subject": code + " is your Activity Connect code", "Content-Language": "en", "Auto-Submitted": "auto-generated",
	} {
		if got := email.Header.Get(name); got != want {
			t.Errorf("header %s = %q, want %q", name, got, want)
		}
	}
	if got := email.Header.Get("Message-Id"); !strings.HasSuffix(got, "@service.example>") {
		t.Errorf("message id %q names another host", got)
	}
	for part, text := range map[string]string{"text": email.Text, "html": strings.ReplaceAll(email.HTML, "&amp;", "&")} {
		for _, want := range []string{code, "Stride & Co", "10 minutes", "Didn’t request this?", "Enter it only at service.example", "Activity Connect"} {
			if !strings.Contains(text, want) {
				t.Errorf("the %s part does not have %q", part, want)
			}
		}
	}
	if strings.Contains(email.HTML, "Stride & Co") {
		t.Error("the company's name stands unescaped in the HTML part")
	}
}

// TestEmailWithoutCode: in every language it has a button with the address below it, and speaks of no code.
func TestEmailWithoutCode(t *testing.T) {
	t.Parallel()
	const link = "https://service.example/account/link/x"
	for _, in := range locale.Default().All() {
		email, err := codeEmail{link: link, partner: "Stride", in: in}.email()
		if err != nil {
			t.Fatal(err)
		}
		if says := strings.ToLower(email.text + email.html); strings.Contains(says, strings.ToLower(in.Text("step.code"))) {
			t.Errorf("%s: it speaks of a code:\n%s", in.Tag, email.text)
		}
		if !strings.Contains(email.html, ">"+in.Text("link.sign_in")+"</a></td>") || !strings.Contains(email.html, ">"+link+"</a></p>") ||
			!strings.Contains(email.text, "\n\n"+link+"\n\n") {
			t.Errorf("%s: no button with its address below it:\n%s\n%s", in.Tag, email.html, email.text)
		}
	}
}

// TestMailServers: encryption and login by the form of the setting.
func TestMailServers(t *testing.T) {
	t.Parallel()
	certificate := httptest.NewUnstartedServer(nil)
	certificate.StartTLS()
	t.Cleanup(certificate.Close)
	roots := x509.NewCertPool()
	roots.AddCert(certificate.Certificate())
	serverTLS := &tls.Config{Certificates: certificate.TLS.Certificates}

	for _, test := range []struct {
		name    string
		server  mailtest.Config
		url     string
		fails   bool
		wantTLS bool
	}{
		{name: "plain", url: "smtp://HOST"},
		{name: "STARTTLS when offered", server: mailtest.Config{TLS: serverTLS}, url: "smtp://HOST", wantTLS: true},
		{name: "STARTTLS and login", server: mailtest.Config{TLS: serverTLS, Password: "s3cret/+"}, url: "smtp://user:s3cret%2F%2B@HOST", wantTLS: true},
		{name: "no password without TLS", server: mailtest.Config{Password: "s3cret"}, url: "smtp://user:s3cret@HOST", fails: true},
		{name: "TLS", server: mailtest.Config{TLS: serverTLS, ImplicitTLS: true}, url: "smtps://HOST", wantTLS: true},
		{name: "TLS and login", server: mailtest.Config{TLS: serverTLS, ImplicitTLS: true, Password: "s3cret"}, url: "smtps://user:s3cret@HOST", wantTLS: true},
		{name: "elsewhere with STARTTLS", server: mailtest.Config{TLS: serverTLS}, url: "smtp://mail.example:25", wantTLS: true},
		{name: "elsewhere without STARTTLS", url: "smtp://mail.example:25", fails: true},
		{name: "elsewhere in clear", url: "smtp://mail.example:25?tls=off"},
		{name: "elsewhere at an IPv6 address", server: mailtest.Config{TLS: serverTLS}, url: "smtp://[2001:db8::25]:25", wantTLS: true},
		{name: "in clear though TLS is offered", server: mailtest.Config{TLS: serverTLS}, url: "smtp://HOST?tls=off"},
		{name: "wrong password", server: mailtest.Config{TLS: serverTLS, ImplicitTLS: true, Password: "s3cret"}, url: "smtps://user:other@HOST", fails: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			post := mailtest.Start(t, test.server)
			mailer, err := NewMailer(strings.Replace(test.url, "HOST", post.Address, 1), "connect@service.example")
			if err != nil {
				t.Fatal(err)
			}
			// The one thing that a test must bring along: trust in its own certificate.
			if err := mailer.client.SetTLSConfig(&tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}); err != nil {
				t.Fatal(err)
			}
			// Nothing leaves the machine, wherever the mail server is said to be.
			here := func(ctx context.Context, protocol, address string) (net.Conn, error) {
				if _, _, err := net.SplitHostPort(address); err != nil {
					return nil, err
				}
				return new(net.Dialer).DialContext(ctx, protocol, post.Address)
			}
			if !strings.Contains(test.url, "HOST") {
				if err := mail.WithDialContextFunc(here)(mailer.client); err != nil {
					t.Fatal(err)
				}
			}
			email, err := codeEmail{to: "ada@example.com", code: "123456", partner: "Stride", in: locale.Default().Locale("en")}.email()
			if err != nil {
				t.Fatal(err)
			}
			_, err = mailer.send(context.Background(), email, func() error { return nil })
			if test.fails {
				if err == nil {
					t.Error("the email was sent")
				} else if strings.Contains(err.Error(), "s3cret") {
					t.Errorf("the error holds the password: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := post.Next(t); got.TLS != test.wantTLS {
				t.Errorf("over TLS: %v, want %v", got.TLS, test.wantTLS)
			}
		})
	}
}

// Security describes the way to the mail server before anything is sent.
func TestMailerSecurity(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"smtp://127.0.0.1:25":            "stays on this machine",
		"smtp://[::1]:25?tls=off":        "stays on this machine",
		"smtps://localhost:465":          "stays on this machine",
		"smtp://mail.example:25":         "TLS is verified",
		"smtp://user:word@192.0.2.1:587": "TLS is verified",
		"smtps://mail.example:465":       "TLS is verified",
		"smtp://mail.example:25?tls=off": "TLS is not verified (tls=off)",
	} {
		mailer, err := NewMailer(url, "connect@service.example")
		if err != nil {
			t.Errorf("%s: %v", url, err)
		} else if got := mailer.Security(); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}

func TestNewMailerRefuses(t *testing.T) {
	t.Parallel()
	const from = "connect@service.example"
	for _, test := range []struct {
		name, url, from string
		want            error
	}{
		{"empty", "", from, errSMTPURL},
		{"no scheme", "mail.example:25", from, errSMTPURL},
		{"another scheme", "https://user:s3cret@mail.example:25", from, errSMTPURL},
		{"no host", "smtp://:25", from, errSMTPURL},
		{"no port", "smtp://user:s3cret@mail.example", from, errSMTPURL},
		{"port zero", "smtp://mail.example:0", from, errSMTPURL},
		{"port too high", "smtp://mail.example:65536", from, errSMTPURL},
		{"bad escape", "smtp://user:s3cret%zz@mail.example:25", from, errSMTPURL},
		{"path", "smtp://mail.example:25/relay", from, errSMTPURL},
		{"query", "smtp://user:s3cret@mail.example:25?tls=no", from, errSMTPURL},
		{"another query", "smtp://mail.example:25?tls=off&x=y", from, errSMTPURL},
		{"password without TLS", "smtp://user:s3cret@mail.example:25?tls=off", from, errSMTPURL},
		{"TLS without TLS", "smtps://mail.example:465?tls=off", from, errSMTPURL},
		{"fragment", "smtp://mail.example:25#x", from, errSMTPURL},
		{"user alone", "smtps://s3cret@mail.example:465", from, errSMTPURL},
		{"password alone", "smtps://:s3cret@mail.example:465", from, errSMTPURL},
		{"no sender", "smtp://mail.example:25", "", errMailFrom},
		{"sender without host", "smtp://mail.example:25", "connect", errMailFrom},
		{"two senders", "smtp://mail.example:25", "a@example.com, b@example.com", errMailFrom},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := NewMailer(test.url, test.from)
			if !errors.Is(err, test.want) {
				t.Fatalf("error = %v, want %v", err, test.want)
			}
			if strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "\n") {
				t.Errorf("error = %q, want one line without the password", err)
			}
		})
	}
}

// TestAnAddressWithoutAccountCausesTheSameWork reads what the mail server receives: all is the same until a recipient would
// be named.
func TestAnAddressWithoutAccountCausesTheSameWork(t *testing.T) {
	t.Parallel()
	post := mailtest.Start(t, mailtest.Config{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	said := make(chan []string, 2)
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { said <- overhear(client, post.Address) }()
		}
	}()
	b := newBenchOn(t, newDB(t), post, "smtp://"+listener.Addr().String(), Settings{})
	b.user(t, "known@example.com")
	commands := func(email string) (words []string) {
		if err := b.send(uuid.New(), email); err != nil {
			t.Fatal(err)
		}
		for _, line := range <-said {
			word, _, _ := strings.Cut(line, " ")
			words = append(words, word)
		}
		return words
	}
	known, unknown := commands("known@example.com"), commands("unknown@example.com")
	if diff := cmp.Diff([]string{"EHLO", "MAIL", "RSET", "QUIT"}, unknown); diff != "" {
		t.Errorf("without an account (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"EHLO", "MAIL"}, known[:2]); diff != "" {
		t.Errorf("with an account (-want +got):\n%s", diff)
	}
	if post.Next(t); post.Waiting() != 0 || strings.Contains(b.log.String(), "could not be sent") {
		t.Errorf("%d more emails; log: %s", post.Waiting(), b.log)
	}
}

// TestEnvelope: the paths stand in angle brackets (RFC 5321, section 4.1.2). Strict mail servers refuse them without, for good. An email
// asks for SMTPUTF8 only if an address needs it: a mail server on its way that does not offer it would send it back (RFC 6531, section 3.1).
func TestEnvelope(t *testing.T) {
	t.Parallel()
	utf8, eightBit := mailtest.Config{UTF8: true}, " BODY=8BITMIME"
	for _, test := range []struct {
		name, from, to string
		server         mailtest.Config
		want           []string // after EHLO
		refused        string
	}{
		{"usual", "connect@service.example", "ada@example.com", utf8, []string{
			"MAIL FROM:<connect@service.example>" + eightBit, "RCPT TO:<ada@example.com>", "DATA"}, ""},
		{"name of the sender", "Ä <connect@service.example>", "ada@example.com", utf8, []string{
			"MAIL FROM:<connect@service.example>" + eightBit, "RCPT TO:<ada@example.com>", "DATA"}, ""},
		{"without 8BITMIME", "connect@service.example", "ada@example.com", mailtest.Config{Without: []string{"8BITMIME"}}, []string{
			"MAIL FROM:<connect@service.example>", "RCPT TO:<ada@example.com>", "DATA"}, ""},
		{"SMTPUTF8", "connect@service.example", "søren@example.com", utf8, []string{
			"MAIL FROM:<connect@service.example>" + eightBit + " SMTPUTF8", "RCPT TO:<søren@example.com>", "DATA"}, ""},
		{"domain", "connect@bücher.example", "ren@Bücher.example", mailtest.Config{}, []string{
			"MAIL FROM:<connect@xn--bcher-kva.example>" + eightBit, "RCPT TO:<ren@xn--bcher-kva.example>", "DATA"}, ""},
		{"SMTPUTF8 and domain", "connect@service.example", "søren@bücher.example", utf8, []string{
			"MAIL FROM:<connect@service.example>" + eightBit + " SMTPUTF8", "RCPT TO:<søren@xn--bcher-kva.example>", "DATA"}, ""},
		{"SMTPUTF8 of the sender", "søren@service.example", "ada@example.com", utf8, []string{
			"MAIL FROM:<søren@service.example>" + eightBit + " SMTPUTF8", "RCPT TO:<ada@example.com>", "DATA"}, ""},
		{"without SMTPUTF8", "connect@service.example", "søren@example.com", mailtest.Config{}, []string{
			"MAIL FROM:<connect@service.example>" + eightBit, "QUIT"}, `RCPT TO: 553 "5.6.7"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			post := mailtest.Start(t, test.server)
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			mailer, err := NewMailer("smtp://"+listener.Addr().String(), test.from)
			if err != nil {
				t.Fatal(err)
			}
			said := make(chan []string, 1)
			go func() {
				if client, err := listener.Accept(); err == nil {
					said <- overhear(client, post.Address)
				}
			}()
			email, err := codeEmail{to: test.to, code: "123456", partner: "Stride", in: locale.Default().Locale("en")}.email()
			if err != nil {
				t.Fatal(err)
			}
			accepted, refused := false, ""
			if _, err := mailer.send(t.Context(), email, func() error { accepted = true; return nil }); err != nil {
				refused = err.Error()
			}
			if refused != test.refused || !accepted {
				t.Errorf("refused: %q, want %q; the sender was accepted: %v", refused, test.refused, accepted)
			}
			commands := <-said
			if diff := cmp.Diff(test.want, commands[1:min(1+len(test.want), len(commands))]); diff != "" {
				t.Errorf("after EHLO (-want +got):\n%s", diff)
			}
		})
	}
}

// TestGreeting: the name after EHLO is one that a host can have, with a dot in it, or an address. Mail servers refuse others for good.
func TestGreeting(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ hostname, from, want string }{
		{"web1.service.example", "connect@mail.example", "web1.service.example"},
		{"web1", "connect@mail.example", "mail.example"},
		{"web_1.service.example", "connect@mail.example", "mail.example"},
		{"", "connect@mail.example", "mail.example"},
		{"web1.", "connect@mail.example", "mail.example"},
		{"web1", "connect@localhost", "[127.0.0.1]"},
		{"web1", "connect@bücher.example", "[127.0.0.1]"},
	} {
		if got := greeting(test.hostname, test.from); got != test.want {
			t.Errorf("on %q, from %q: %q, want %q", test.hostname, test.from, got, test.want)
		}
	}
}

// overhear connects a client to a mail server, and returns the lines that it says, in the end.
func overhear(client net.Conn, address string) (said []string) {
	server, err := net.Dial("tcp", address)
	if err != nil {
		return []string{err.Error()}
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(client, server)
		client.Close()
	}()
	lines := bufio.NewScanner(io.TeeReader(client, server))
	for lines.Scan() {
		said = append(said, lines.Text())
	}
	return said
}
