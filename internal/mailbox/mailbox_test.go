package mailbox_test

import (
	"strings"
	"testing"

	"connect-svc/internal/mailbox"
)

func TestValid(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"ada@example.com", "ada.lovelace+news@mail.example.co.uk", "o'brien@example.com", "a&b@example.com", "söre@exämple.com", "用户@例子.example",
		strings.Repeat("a", 64) + "@example.com",
	} {
		if !mailbox.Valid(address) {
			t.Errorf("%q is refused", address)
		}
	}
	for _, address := range []string{
		"", "ada", "@example.com", "ada@", "Ada <ada@example.com>", "<ada@example.com>", "ada@example.com, bob@example.com", "ada @example.com",
		"ada@[127.0.0.1]", strings.Repeat("a", 65) + "@example.com", strings.Repeat("a", 250) + "@b.cd",
		"ada?bcc=eve@example.com", "ada@example.com?subject=x", "ada\u202e@example.com", "a\u200bda@example.com", "ada\u2028@example.com",
		"ada\u2029@example.com", "ada\u00ad@example.com", "ada\ufeff@example.com", "ada\u2066@example.com", "ada\u00a0@example.com",
		"ada\u3164@example.com", "ada\u2800@example.com", "ada\x00@example.com", "ada\r\n@example.com", "ada\xff@example.com", "ada\ue000@example.com",
	} {
		if mailbox.Valid(address) {
			t.Errorf("%q is accepted", address)
		}
	}
}
