package mailcatcher

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"net/smtp"
	"strings"
	"testing"
)

const quoted = "From: =?utf-8?q?Caf=C3=A9?= <cafe@example.com>\r\n" +
	"Subject: =?utf-8?q?Your_c=C3=B6de?=\r\n" +
	"MIME-Version: 1.0\r\n" +
	"Content-Type: multipart/alternative; boundary=b\r\n\r\n" +
	"--b\r\nContent-Type: text/html\r\n\r\n<b>123123</b>\r\n" +
	"--b\r\nContent-Type: text/plain; charset=UTF-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n" +
	"Gr=C3=BC=C3=9Fe\r\n\r\n123456\r\n\r\n--b--\r\n"

func TestParse(t *testing.T) {
	t.Parallel()
	email, err := parse(strings.NewReader(quoted))
	if err != nil || email.Text != "Grüße\n\n123456" || email.HTML != "<b>123123</b>" || email.Code != "123456" || email.Subject != "Your cöde" {
		t.Errorf("%+v, %v", email, err)
	}
	for _, message := range []string{
		"", "Content-Type: image/png\r\n\r\nx", "Subject: x\r\n\r\nno content type", "Content-Type: multipart/alternative; boundary=a\r\n\r\nx",
	} {
		if email, err := parse(strings.NewReader(message)); err == nil {
			t.Errorf("%q was parsed as %+v", message, email)
		}
	}
}

// A picture that an email embeds is shown in it, and no other one.
func TestPictures(t *testing.T) {
	t.Parallel()
	email, err := parse(strings.NewReader("Content-Type: multipart/related; boundary=r\r\n\r\n--r\r\n" +
		"Content-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\nx\r\n" +
		"--b\r\nContent-Type: text/html\r\n\r\n<head></head><img src=\"cid:logo\"><img src=\"cid:other\">\r\n--b--\r\n" +
		"--r\r\nContent-Type: image/png\r\nContent-Transfer-Encoding: base64\r\nContent-ID: <logo>\r\n\r\nAAAA\r\nBBBB\r\n--r--\r\n"))
	if want := `<head></head><img src="data:image/png;base64,AAAABBBB"><img src="cid:other">`; err != nil || email.HTML != want {
		t.Errorf("%q, %v", email.HTML, err)
	}
}

func TestCatch(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	catcher, done := new(Catcher), make(chan error)
	go func() { done <- catcher.ServeSMTP(ctx, listener, slog.New(slog.DiscardHandler)) }()

	send := func(to, message string) error {
		return smtp.SendMail(listener.Addr().String(), nil, "demo@example.com", []string{to}, []byte(message))
	}
	if err := send("alex@example.com", quoted); err != nil {
		t.Fatal(err)
	}
	second := strings.NewReplacer("=?utf-8?q?Your_c=C3=B6de?=", "<script>alert(1)</script>", "Gr=C3=BC=C3=9Fe", "second", "123456", "654321").Replace(quoted)
	if err := send("robin@example.com", second); err != nil {
		t.Fatal(err)
	}
	if err := send("robin@example.com", "Content-Type: image/png\r\n\r\nx\r\n"); err == nil {
		t.Error("an email without text was accepted")
	}
	emails := catcher.Emails()
	if len(emails) != 2 || emails[0].Code != "654321" || emails[1].Subject != "Your cöde" || emails[1].From != "demo@example.com" || emails[1].TLS {
		t.Fatalf("emails = %+v", emails)
	}

	response := httptest.NewRecorder()
	catcher.Handler().ServeHTTP(response, httptest.NewRequest("GET", "/", nil))
	page := response.Body.String()
	if !strings.Contains(page, `src="/2"`) || !strings.Contains(page, "<pre>second") {
		t.Errorf("HTML and text are not side by side:\n%s", page)
	}
	newest, oldest := strings.Index(page, "second"), strings.Index(page, "123456")
	if newest < 0 || oldest < newest || strings.Contains(page, "<script>") || !strings.Contains(page, `http-equiv="refresh"`) {
		t.Errorf("page:\n%s", page)
	}

	for path, want := range map[string]string{"/2": "<b>123123</b>", "/3": "404 page not found\n", "/0": "404 page not found\n", "/x": "404 page not found\n"} {
		response := httptest.NewRecorder()
		catcher.Handler().ServeHTTP(response, httptest.NewRequest("GET", path, nil))
		if got := response.Body.String(); got != want {
			t.Errorf("%s: %q", path, got)
		}
		if policy := response.Header().Get("Content-Security-Policy"); path == "/2" && !strings.Contains(policy, "sandbox ") {
			t.Errorf("the email is not confined: %q", policy)
		}
	}

	stop()
	if err := <-done; err != nil {
		t.Errorf("ServeSMTP after its end: %v", err)
	}
}

func TestForgetsTheOldest(t *testing.T) {
	t.Parallel()
	catcher := new(Catcher)
	for i := range maxEmails + 10 {
		catcher.add(Email{Text: fmt.Sprint(i)})
	}
	emails := catcher.Emails()
	if len(emails) != maxEmails || emails[0].Text != fmt.Sprint(maxEmails+9) || emails[0].Number != maxEmails+10 {
		t.Errorf("%d emails, the newest %+v", len(emails), emails[0])
	}
}
