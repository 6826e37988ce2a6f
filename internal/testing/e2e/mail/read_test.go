//go:build check

package mail_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheParserIsStrict: an email as it should be has no defects, and each fault is found.
func TestTheParserIsStrict(t *testing.T) {
	t.Parallel()
	const right = "From: =?utf-8?q?S=C3=B8n?= <a@b.example>\nTo: <c@d.example>\nDate: Sat, 28 Nov 2026 07:09:02 +0000\nMessage-ID: <x@b.example>\n" +
		"MIME-Version: 1.0\nContent-Type: multipart/alternative; boundary=b\n\n" +
		"--b\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\nGr=C3=BC=C3=9Fe\n\n--b--\n"
	for name, change := range map[string][2]string{
		"":                     {"", ""},
		"no last boundary":     {"--b--", ""},
		"no boundary":          {"--b\n", "\n"},
		"boundary is not said": {"; boundary=b", ""},
		"8 bits":               {"Gr=C3=BC=C3=9Fe", "Grüße"},
		"Latin-1":              {"Gr=C3=BC=C3=9Fe", "Gr\xfc\xdfe"},
		"long line":            {"Gr=C3=BC=C3=9Fe", strings.Repeat("x", 999)},
		"bare return":          {"Gr=C3=BC=C3=9Fe", "x\rx"},
		"no colon":             {"To: ", "To "},
		"no date":              {"Date: Sat, 28 Nov 2026 07:09:02 +0000\n", ""},
		"bad date":             {"28 Nov", "40 Nov"},
		"bad address":          {"<c@d.example>", "<c@d.example"},
		"bad encoded word":     {"=?utf-8?q?S=C3=B8n?=", "=?utf-8?b?U8?="},
		"twice":                {"To: ", "From: <a@b.example>\nTo: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &mailServer{maildir: t.TempDir()}
			if err := os.Mkdir(filepath.Join(s.maildir, "new"), 0o755); err != nil {
				t.Fatal(err)
			}
			email := strings.Replace(right, change[0], change[1], 1)
			if err := os.WriteFile(filepath.Join(s.maildir, "new", "1"), []byte(email), 0o644); err != nil {
				t.Fatal(err)
			}
			got := s.read(t, 1)[0]
			if (len(got.Wrong) == 0) != (name == "") {
				t.Errorf("found: %q", got.Wrong)
			}
			if name == "" && strings.Join(got.content("text/plain"), "") != "Grüße\n" {
				t.Errorf("the text is %q", got.content("text/plain"))
			}
		})
	}
}
