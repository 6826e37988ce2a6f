package mailcatcher

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"connect-svc/internal/testing/wait"
)

// client says exactly what a test has it say.
type client struct {
	net.Conn
	text *textproto.Conn
}

func dial(t *testing.T, config Config) *client {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = (&Catcher{Config: config}).ServeSMTP(ctx, listener, slog.New(slog.DiscardHandler))
	}()
	t.Cleanup(func() { stop(); <-done })
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(wait.Limit))
	c := &client{conn, textproto.NewConn(conn)}
	c.reply(t)
	return c
}

// reply returns the next reply: its code and its text.
func (c *client) reply(t *testing.T) string {
	t.Helper()
	code, text, err := c.text.ReadResponse(0)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", code, text)
}

func (c *client) say(t *testing.T, raw string) string {
	t.Helper()
	if _, err := io.WriteString(c, raw); err != nil {
		t.Fatal(err)
	}
	return c.reply(t)
}

const (
	ehlo    = "EHLO host.example\r\n"
	from    = "MAIL FROM:<a@b.example>\r\n"
	from8   = "MAIL FROM:<a@b.example> BODY=8BITMIME\r\n"
	fromU   = "MAIL FROM:<a@b.example> SMTPUTF8\r\n"
	rcpt    = "RCPT TO:<c@d.example>\r\n"
	data    = "DATA\r\n"
	header  = "Content-Type: text/plain\r\n\r\n"
	ended   = "\r\n.\r\n"
	taken   = "250 2.0.0"
	refused = "554 5.6.0"
)

// TestStrict: each form that RFC 5321 and its extensions do not have is refused, and the form beside it that they have is not.
func TestStrict(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 998)
	for _, test := range []struct {
		name   string
		config Config
		before []string // what is said before, with a good reply
		say    string
		want   string // how the reply begins
	}{
		{"path", Config{}, []string{ehlo}, from, "250"},
		{"no sender", Config{}, []string{ehlo}, "MAIL FROM:<>\r\n", "250"},
		{"sender without brackets", Config{}, []string{ehlo}, "MAIL FROM:a@b.example\r\n", "501"},
		{"sender without brackets, with a parameter", Config{}, []string{ehlo}, "MAIL FROM:a@b.example BODY=8BITMIME\r\n", "501"},
		{"recipient without brackets", Config{}, []string{ehlo, from}, "RCPT TO:c@d.example\r\n", "501"},
		{"opening bracket alone", Config{}, []string{ehlo}, "MAIL FROM:<a@b.example\r\n", "501"},
		{"closing bracket alone", Config{}, []string{ehlo}, "MAIL FROM:a@b.example>\r\n", "501"},
		{"space before the path", Config{}, []string{ehlo}, "MAIL FROM: <a@b.example>\r\n", "501"},
		{"space at the end", Config{}, []string{ehlo}, "MAIL FROM:<a@b.example> \r\n", "501"},
		{"space in the path", Config{}, []string{ehlo}, "MAIL FROM:<a @b.example>\r\n", "501"},
		{"name before the path", Config{}, []string{ehlo}, "MAIL FROM:Ada <a@b.example>\r\n", "501"},
		{"no domain", Config{}, []string{ehlo}, "MAIL FROM:<a>\r\n", "501"},
		{"no recipient", Config{}, []string{ehlo, from}, "RCPT TO:<>\r\n", "501"},
		{"other words", Config{}, []string{ehlo}, "MAIL TO:<a@b.example>\r\n", "501"},
		{"two dots", Config{}, []string{ehlo}, "MAIL FROM:<a..a@b.example>\r\n", "501"},
		{"quoted", Config{}, []string{ehlo}, `MAIL FROM:<"a> b\" c"@b.example>` + "\r\n", "250"},
		{"underscore in the domain", Config{}, []string{ehlo}, "MAIL FROM:<a@b_b.example>\r\n", "501"},
		{"hash in the domain", Config{}, []string{ehlo}, "MAIL FROM:<a@b.example#x>\r\n", "501"},
		{"dot at the end of the domain", Config{}, []string{ehlo}, "MAIL FROM:<a@b.example.>\r\n", "501"},
		{"address as domain", Config{}, []string{ehlo}, "MAIL FROM:<a@[IPv6:::1]>\r\n", "250"},
		{"no address in square brackets", Config{}, []string{ehlo}, "MAIL FROM:<a@[b.example]>\r\n", "501"},
		{"route", Config{}, []string{ehlo}, "MAIL FROM:<@c.example:a@b.example>\r\n", "501"},
		{"long local part", Config{}, []string{ehlo}, "MAIL FROM:<" + long[:64] + "@b.example>\r\n", "250"},
		{"too long local part", Config{}, []string{ehlo}, "MAIL FROM:<" + long[:65] + "@b.example>\r\n", "501"},
		{"too long label", Config{}, []string{ehlo}, "MAIL FROM:<a@" + long[:64] + ".example>\r\n", "501"},
		{"long path", Config{}, []string{ehlo}, "MAIL FROM:<" + long[:63] + "@" + strings.Repeat(long[:60]+".", 3) + "example>\r\n", "250"},
		{"too long path", Config{}, []string{ehlo}, "MAIL FROM:<" + long[:64] + "@" + strings.Repeat(long[:60]+".", 3) + "example>\r\n", "501"},

		{"UTF-8", Config{UTF8: true}, []string{ehlo}, "MAIL FROM:<ä@b.example> SMTPUTF8\r\n", "250"},
		{"UTF-8 without its parameter", Config{UTF8: true}, []string{ehlo}, "MAIL FROM:<ä@b.example>\r\n", "553 5.6.7"},
		{"UTF-8 is not offered", Config{}, []string{ehlo}, "MAIL FROM:<ä@b.example> SMTPUTF8\r\n", "555"},
		{"UTF-8 in the recipient", Config{UTF8: true}, []string{ehlo, fromU}, "RCPT TO:<c@ä.example>\r\n", "250"},
		{"UTF-8 in the recipient without the parameter", Config{UTF8: true}, []string{ehlo, from}, "RCPT TO:<c@ä.example>\r\n", "553 5.6.7"},
		{"Latin-1", Config{UTF8: true}, []string{ehlo}, "MAIL FROM:<\xe4@b.example> SMTPUTF8\r\n", "501"},
		{"value of SMTPUTF8", Config{UTF8: true}, []string{ehlo}, "MAIL FROM:<a@b.example> SMTPUTF8=1\r\n", "501"},
		{"8 bits", Config{}, []string{ehlo}, from8, "250"},
		{"8 bits are not offered", Config{Without: []string{"8BITMIME"}}, []string{ehlo}, from8, "555"},
		{"another body", Config{}, []string{ehlo}, "MAIL FROM:<a@b.example> BODY=9BIT\r\n", "501"},
		{"size", Config{}, []string{ehlo}, "MAIL FROM:<a@b.example> SIZE=1000\r\n", "250"},
		{"too large a size", Config{MaxSize: 999}, []string{ehlo}, "MAIL FROM:<a@b.example> SIZE=1000\r\n", "552 5.3.4"},
		{"no size", Config{}, []string{ehlo}, "MAIL FROM:<a@b.example> SIZE=x\r\n", "501"},
		{"size is not offered", Config{Without: []string{"SIZE"}}, []string{ehlo}, "MAIL FROM:<a@b.example> SIZE=1000\r\n", "555"},
		{"a parameter twice", Config{}, []string{ehlo}, "MAIL FROM:<a@b.example> SIZE=1 SIZE=1\r\n", "501"},
		{"two spaces", Config{}, []string{ehlo}, "MAIL FROM:<a@b.example>  SIZE=1\r\n", "501"},
		{"unknown parameter", Config{}, []string{ehlo}, "MAIL FROM:<a@b.example> RET=HDRS\r\n", "555"},
		{"unknown parameter of a recipient", Config{}, []string{ehlo, from}, "RCPT TO:<c@d.example> NOTIFY=NEVER\r\n", "555"},
		{"parameter after HELO", Config{}, []string{"HELO host.example\r\n"}, from8, "555"},

		{"sender before EHLO", Config{}, nil, from, "503"},
		{"recipient before the sender", Config{}, []string{ehlo}, rcpt, "503"},
		{"content before the sender", Config{}, []string{ehlo}, data, "503"},
		{"content before a recipient", Config{}, []string{ehlo, from}, data, "503"},
		{"sender twice", Config{}, []string{ehlo, from}, from, "503"},
		{"recipient after RSET", Config{}, []string{ehlo, from, "RSET\r\n"}, rcpt, "503"},
		{"recipient after another EHLO", Config{}, []string{ehlo, from, ehlo}, rcpt, "503"},
		{"STARTTLS is not offered", Config{}, []string{ehlo}, "STARTTLS\r\n", "503"},
		{"AUTH is not offered", Config{Password: "x"}, []string{ehlo}, "AUTH PLAIN AHUAeA==\r\n", "503"},
		{"no login", Config{Password: "x"}, []string{ehlo}, from, "530"},
		{"unknown command", Config{}, []string{ehlo}, "SEND FROM:<a@b.example>\r\n", "500"},
		{"nothing", Config{}, []string{ehlo}, "\r\n", "500"},
		{"small letters", Config{}, []string{"ehlo host.example\r\n"}, "mail from:<a@b.example> body=8bitmime\r\n", "250"},
		{"argument of RSET", Config{}, []string{ehlo}, "RSET now\r\n", "501"},
		{"space after DATA", Config{}, []string{ehlo, from, rcpt}, "DATA \r\n", "501"},
		{"EHLO without a name", Config{}, nil, "EHLO\r\n", "501"},
		{"EHLO with two names", Config{}, nil, "EHLO host.example other.example\r\n", "501"},
		{"EHLO with a name that no host has", Config{}, nil, "EHLO my_host\r\n", "501"},
		{"EHLO with an address", Config{}, nil, "EHLO [127.0.0.1]\r\n", "250"},
		{"EHLO with an address without brackets", Config{}, nil, "EHLO ::1\r\n", "501"},
		{"before the reply", Config{}, []string{ehlo}, from + rcpt, "250"},
		{"before the reply of who does not offer it", Config{Without: []string{"PIPELINING"}}, []string{ehlo}, from + rcpt, "503"},
		{"content before the reply to DATA", Config{}, []string{ehlo, from, rcpt}, data + header, "503"},
		{"before the reply to EHLO", Config{}, nil, ehlo + from, "503"},

		{"line feed alone", Config{}, []string{ehlo}, "MAIL FROM:<a@b.example>\n", "501"},
		{"carriage return alone", Config{}, []string{ehlo}, "MAIL FROM:<a@b.example>\r RSET\r\n", "501"},
		{"NUL", Config{}, []string{ehlo}, "NOOP \x00\r\n", "501"},
		{"tab", Config{}, []string{ehlo}, "NOOP \t\r\n", "501"},
		{"long command", Config{}, []string{ehlo}, "NOOP " + long[:512-7] + "\r\n", "250"},
		{"too long a command", Config{}, []string{ehlo}, "NOOP " + long[:512-6] + "\r\n", "500"},
		{"much too long a command", Config{}, []string{ehlo}, "NOOP " + strings.Repeat(long, 100) + "\r\n", "500"},

		{"content", Config{}, []string{ehlo, from, rcpt, data}, header + "text" + ended, taken},
		{"line feed alone in the content", Config{}, []string{ehlo, from, rcpt, data}, header + "text\ntext" + ended, refused},
		{"line feeds alone around the last dot", Config{}, []string{ehlo, from, rcpt, data}, header + "text\n.\n", refused},
		{"carriage return alone in the content", Config{}, []string{ehlo, from, rcpt, data}, header + "text\rtext" + ended, refused},
		{"NUL in the content", Config{}, []string{ehlo, from, rcpt, data}, header + "text\x00" + ended, refused},
		{"long line", Config{}, []string{ehlo, from, rcpt, data}, header + long + ended, taken},
		{"too long a line", Config{}, []string{ehlo, from, rcpt, data}, header + long + "x" + ended, refused},
		{"long line after a dot", Config{}, []string{ehlo, from, rcpt, data}, header + ".." + long[1:] + ended, taken},
		{"too long a line after a dot", Config{}, []string{ehlo, from, rcpt, data}, header + ".." + long + ended, refused},
		{"dot", Config{}, []string{ehlo, from, rcpt, data}, header + ".." + ended, taken},
		{"dot that was not doubled", Config{}, []string{ehlo, from, rcpt, data}, header + ".text" + ended, refused},
		{"8 bits", Config{}, []string{ehlo, from8, rcpt, data}, header + "Grüße" + ended, taken},
		{"8 bits without their parameter", Config{}, []string{ehlo, from, rcpt, data}, header + "Grüße" + ended, refused},
		{"UTF-8 in the header", Config{UTF8: true}, []string{ehlo, fromU, rcpt, data}, "Subject: Grüße\r\n" + header + "x" + ended, taken},
		{"UTF-8 in the header without the parameter", Config{UTF8: true}, []string{ehlo, from8, rcpt, data}, "Subject: Grüße\r\n" + header + "x" + ended, refused},
		{"Latin-1 in the header", Config{UTF8: true}, []string{ehlo, fromU, rcpt, data}, "Subject: Gr\xfc\r\n" + header + "x" + ended, refused},
		{"too large", Config{MaxSize: 999}, []string{ehlo, from, rcpt, data}, header + long + ended, "552 5.3.4"},
		{"no email", Config{}, []string{ehlo, from, rcpt, data}, "Content-Type: image/png\r\n\r\nx" + ended, refused},
		{"content twice", Config{}, []string{ehlo, from, rcpt, data, header + "text" + ended}, data, "503"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, test.config)
			for _, line := range test.before {
				if reply := c.say(t, line); reply[0] != '2' && reply[0] != '3' {
					t.Fatalf("%q: %s", line, reply)
				}
			}
			if reply := c.say(t, test.say); !strings.HasPrefix(reply, test.want) {
				t.Errorf("%q: %s, want %s", test.say[:min(len(test.say), 100)], reply, test.want)
			}
		})
	}
}

// TestNothingIsSmuggled: what follows an email whose end is not certain is not read as commands, and the email is not taken.
func TestNothingIsSmuggled(t *testing.T) {
	t.Parallel()
	caught := make(chan Email, 1)
	c := dial(t, Config{OnEmail: func(email Email) { caught <- email }})
	for _, line := range []string{ehlo, from, rcpt, data} {
		c.say(t, line)
	}
	if reply := c.say(t, header+"text\n.\r\n"); !strings.HasPrefix(reply, refused) {
		t.Error(reply)
	}
	if rest, err := io.ReadAll(c.text.R); len(rest) > 0 || err != nil {
		t.Errorf("then it says %q, %v", rest, err)
	}
	if len(caught) > 0 {
		t.Error("it took the email")
	}
}

// TestStrictLogin: over TLS the session begins anew, and a password is asked for by either mechanism.
func TestStrictLogin(t *testing.T) {
	t.Parallel()
	certificate := httptest.NewUnstartedServer(nil)
	certificate.StartTLS()
	t.Cleanup(certificate.Close)
	encoded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) + "\r\n" }
	for _, test := range []struct {
		name  string
		login bool
		say   []string
		want  string
	}{
		{"PLAIN", false, []string{ehlo, "AUTH PLAIN " + encoded("\x00u\x00word"), from}, "250"},
		{"PLAIN in two steps", false, []string{ehlo, "AUTH PLAIN\r\n", encoded("\x00u\x00word"), from}, "250"},
		{"wrong password", false, []string{ehlo, "AUTH PLAIN " + encoded("\x00u\x00other")}, "535 5.7.8"},
		{"no base64", false, []string{ehlo, "AUTH PLAIN =-=\r\n"}, "501"},
		{"given up", false, []string{ehlo, "AUTH PLAIN\r\n", "*\r\n"}, "501"},
		{"two parts", false, []string{ehlo, "AUTH PLAIN " + encoded("u\x00word")}, "501"},
		{"LOGIN is not offered", false, []string{ehlo, "AUTH LOGIN\r\n"}, "504"},
		{"twice", false, []string{ehlo, "AUTH PLAIN " + encoded("\x00u\x00word"), "AUTH PLAIN " + encoded("\x00u\x00word")}, "503"},
		{"LOGIN", true, []string{ehlo, "AUTH LOGIN\r\n", encoded("u"), encoded("word"), from}, "250"},
		{"LOGIN with a wrong password", true, []string{ehlo, "AUTH LOGIN\r\n", encoded("u"), encoded("other")}, "535 5.7.8"},
		{"PLAIN is not offered", true, []string{ehlo, "AUTH PLAIN " + encoded("\x00u\x00word")}, "504"},
		{"without a greeting", false, []string{from}, "503"},
		{"STARTTLS twice", false, []string{ehlo, "STARTTLS\r\n"}, "503"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, Config{Password: "word", Login: test.login, TLS: &tls.Config{Certificates: certificate.TLS.Certificates}})
			c.say(t, ehlo)
			if reply := c.say(t, "STARTTLS\r\n"); !strings.HasPrefix(reply, "220") {
				t.Fatal(reply)
			}
			over := tls.Client(c.Conn, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // its own certificate
			c = &client{over, textproto.NewConn(over)}
			var reply string
			for _, line := range test.say {
				reply = c.say(t, line)
			}
			if !strings.HasPrefix(reply, test.want) {
				t.Errorf("%s, want %s", reply, test.want)
			}
		})
	}
}

// TestReply: a test can answer in the server's place.
func TestReply(t *testing.T) {
	t.Parallel()
	c := dial(t, Config{Reply: func(command string) string {
		return map[string]string{"RCPT TO:<c@d.example>": "451-4.7.1 one\n451 4.7.1 two", "NOOP": "421 4.3.2 bye"}[command]
	}})
	for _, step := range []struct{ say, want string }{
		{ehlo, "250 localhost\nPIPELINING\n8BITMIME\nSIZE 1048576\nENHANCEDSTATUSCODES"}, {from, "250 2.1.0 accepted"}, {rcpt, "451 4.7.1 one\n4.7.1 two"},
		{data, "503 5.5.1 RCPT comes first"}, {"NOOP\r\n", "421 4.3.2 bye"},
	} {
		if reply := c.say(t, step.say); reply != step.want {
			t.Errorf("%q: %q, want %q", step.say, reply, step.want)
		}
	}
	if rest, err := io.ReadAll(c.text.R); len(rest) > 0 || err != nil {
		t.Errorf("after 421 it says %q, %v", rest, err)
	}
}

// TestBare: addresses without angle brackets are accepted where a test asks for it, and are strict otherwise.
func TestBare(t *testing.T) {
	t.Parallel()
	c := dial(t, Config{Bare: true})
	for _, said := range [][2]string{
		{"EHLO client.example", "250"}, {"MAIL FROM:a@b.example BODY=8BITMIME", "250"}, {"RCPT TO:c d@e.example", "501"},
		{"RCPT TO:c@e.example", "250"}, {"RCPT TO:<f@e.example>", "250"},
	} {
		if got := c.say(t, said[0]+"\r\n"); !strings.HasPrefix(got, said[1]) {
			t.Errorf("%s: %s", said[0], got)
		}
	}
}
