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

func TestLetters(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, message, text, code string }{
		{"several parts", quoted, "Grüße\n\n123456", "123456"},
		{"base64", "Content-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\n\r\naGVsbG8=\r\n", "hello", ""},
		{"no content type", "Subject: x\r\n\r\nhello 123456\r\n", "hello 123456", ""},
		{"nested", "Content-Type: multipart/mixed; boundary=a\r\n\r\n--a\r\nContent-Type: multipart/alternative; boundary=c\r\n\r\n" +
			"--c\r\nContent-Type: text/plain\r\n\r\ninner\r\n--c--\r\n--a--\r\n", "inner", ""},
	} {
		letter, err := read(strings.NewReader(test.message))
		if err != nil || letter.Text != test.text || letter.Code != test.code {
			t.Errorf("%s: %q, code %q, %v; want %q, code %q", test.name, letter.Text, letter.Code, err, test.text, test.code)
		}
	}
	for _, message := range []string{"", "Content-Type: image/png\r\n\r\nx", "Content-Type: multipart/mixed; boundary=a\r\n\r\nx"} {
		if letter, err := read(strings.NewReader(message)); err == nil {
			t.Errorf("%q was read as %+v", message, letter)
		}
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
	if err := send("robin@example.com", "Subject: <script>alert(1)</script>\r\n\r\nsecond\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := send("robin@example.com", "Content-Type: image/png\r\n\r\nx\r\n"); err == nil {
		t.Error("a letter without text was taken")
	}
	letters := catcher.Letters()
	if len(letters) != 2 || letters[0].Text != "second" || letters[1].Subject != "Your cöde" || letters[1].From != "Café <cafe@example.com>" {
		t.Fatalf("letters = %+v", letters)
	}

	answer := httptest.NewRecorder()
	catcher.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/", nil))
	page := answer.Body.String()
	newest, oldest := strings.Index(page, "second"), strings.Index(page, "123456")
	if newest < 0 || oldest < newest || strings.Contains(page, "<script>") || !strings.Contains(page, `http-equiv="refresh"`) {
		t.Errorf("page:\n%s", page)
	}

	stop()
	if err := <-done; err != nil {
		t.Errorf("ServeSMTP after its end: %v", err)
	}
}

func TestForgetsTheOldest(t *testing.T) {
	t.Parallel()
	catcher := new(Catcher)
	for i := range kept + 10 {
		catcher.add(Letter{Text: fmt.Sprint(i)})
	}
	letters := catcher.Letters()
	if len(letters) != kept || letters[0].Text != fmt.Sprint(kept+9) || letters[0].Number != kept+10 {
		t.Errorf("%d letters, the newest %+v", len(letters), letters[0])
	}
}
