package text_test

import (
	"strings"
	"testing"

	"connect-svc/internal/foundation/text"
)

func TestIsAddress(t *testing.T) {
	t.Parallel()
	label := strings.Repeat("b", 63)
	for _, address := range []string{
		"ada@example.com", "ada.lovelace+news@mail.example.co.uk", "o'brien@example.com", "a&b@example.com", "söre@exämple.com", "用户@例子.example",
		strings.Repeat("a", 64) + "@example.com", "ada@localhost", "ada@3com.example", "ada@EXAMPLE.com", "ada@xn--bcher-kva.example",
		"ada@straße.example", "so\u0308re@exa\u0308mple.com", "ada@B\u00dcCHER.example", "ada@דוגמה.example", "ada@" + label + ".example",
		"ada@" + label + "." + label + "." + label + ".example",
		"a@" + label + "." + label + "." + label + "." + strings.Repeat("b", 60), // 254 bytes
	} {
		if !text.IsAddress(address) {
			t.Errorf("%q is refused", address)
		}
	}
	for _, address := range []string{
		"", "ada", "@example.com", "ada@", "Ada <ada@example.com>", "<ada@example.com>", "ada@example.com, bob@example.com", "ada @example.com",
		"ada@[127.0.0.1]", strings.Repeat("a", 65) + "@example.com", strings.Repeat("a", 250) + "@b.cd",
		"ada?bcc=eve@example.com", "ada@example.com?subject=x", "ada\u202e@example.com", "a\u200bda@example.com", "ada\u2028@example.com",
		"ada\u2029@example.com", "ada\u00ad@example.com", "ada\ufeff@example.com", "ada\u2066@example.com", "ada\u00a0@example.com",
		"ada\u3164@example.com", "ada\u2800@example.com", "ada\x00@example.com", "ada\r\n@example.com", "ada\xff@example.com", "ada\ue000@example.com",
		// Domains that are not the name of a host.
		"a@b.example#x", "a@b_c.example", "a@b!.example", "a@-b.example", "a@b-.example", "a@b..example", "a@.example", "a@b.example.", "a@b/c.example",
		"a@127.0.0.1", "a@b.7", "a@" + label + "b.example", "a@" + label + "." + label + "." + label + "." + strings.Repeat("b", 61),
		"a@b。example", "a@ｂ.example", "a@²b.example", "a@xn--a.example", "a@xn--99999999.example", "a@xn--BCHER-.example", "a@ab--c.example",
		"a@x\u200d.example", "a@אb.example",
		strings.Repeat("a", 64) + "@" + label + "." + label + "." + strings.Repeat("ü", 30) + ".example", // longer as A-labels
		strings.Repeat("\u0958", 22) + "@example.com",                                                    // longer in its normal form
	} {
		if text.IsAddress(address) {
			t.Errorf("%q is accepted", address)
		}
	}
}

func TestAddressKey(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{
		{"ines1@users.example", "INES1@Users.Example"},
		{"söre@users.example", "SÖRE@users.example", "so\u0308re@users.example"},
		{"ren@bücher.example", "REN@BÜCHER.example", "ren@xn--bcher-kva.example", "ren@XN--Bcher-KVA.example", "ren@bu\u0308cher.example"},
		{"a@βόλος.example", "a@xn--nxasmm1c.example"}, // no sigma that ends a word
		{"a@straße.example", "a@STRAẞE.example", "a@xn--strae-oqa.example"},
		{"νίκος@x.example", "ΝΊΚΟΣ@x.example"},
		{"dup\u00e9@x", "dupe\u0301@x"},
	} {
		for _, address := range same[1:] {
			if text.AddressKey(address) != text.AddressKey(same[0]) {
				t.Errorf("%q is %q, and %q is %q", address, text.AddressKey(address), same[0], text.AddressKey(same[0]))
			}
		}
	}
	for _, pair := range [][2]string{
		{"a@straße.example", "a@strasse.example"}, {"straße@x", "strasse@x"}, {"ınes@x", "ines@x"}, {"İnes@x", "ines@x"},
		{"a@i̇stanbul.example", "a@istanbul.example"}, {"a@İstanbul.example", "a@istanbul.example"}, {"a@βόλος.example", "a@βόλοσ.example"},
		{"a.b@x", "ab@x"}, {"a+b@x", "a@x"}, {"a@x.y", "a@x-y"}, {"ſam@x", "sam@x"},
	} {
		if text.AddressKey(pair[0]) == text.AddressKey(pair[1]) {
			t.Errorf("%q and %q are both %q", pair[0], pair[1], text.AddressKey(pair[0]))
		}
	}
	for address, want := range map[string]string{
		"Ada+News@Example.COM": "ada+news@example.com", "REN@bücher.example": "ren@xn--bcher-kva.example",
		"a@b_C.example#X": "a@b_c.example#x", "No address": "@no address", // stored by an older program
	} {
		if key := text.AddressKey(address); key != want {
			t.Errorf("the key of %q is %q, want %q", address, key, want)
		}
	}
}

func TestForms(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		address, stored, sent string
		utf8                  bool
	}{
		{"Ada@Example.com", "Ada@Example.com", "Ada@Example.com", false},
		{"ren@bücher.example", "ren@bücher.example", "ren@xn--bcher-kva.example", false},
		{"ren@bu\u0308cher.example", "ren@b\u00fccher.example", "ren@xn--bcher-kva.example", false},
		{"so\u0308re@bücher.example", "s\u00f6re@bücher.example", "so\u0308re@xn--bcher-kva.example", true},
		{"a@b_c.example", "a@b_c.example", "a@b_c.example", false}, // stored by an older program
	} {
		if got := text.StoredAddress(test.address); got != test.stored {
			t.Errorf("%q is stored as %q", test.address, got)
		}
		if got := text.SentAddress(test.address); got != test.sent {
			t.Errorf("%q is sent as %q", test.address, got)
		}
		if got := text.NeedsSMTPUTF8(test.address); got != test.utf8 {
			t.Errorf("%q needs SMTPUTF8: %v", test.address, got)
		}
	}
}

// The key, the stored form and the sent form of an address are of one mailbox.
func FuzzAddressKey(f *testing.F) {
	for _, address := range []string{"Ada@Example.com", "ren@Bücher.example", "İ@İ.example", "a@ß.xn--bcher-kva", "ΑΣ@ΑΣ.example"} {
		f.Add(address)
	}
	f.Fuzz(func(t *testing.T, address string) {
		if !text.IsAddress(address) {
			return
		}
		stored, sent := text.StoredAddress(address), text.SentAddress(address)
		if !text.IsAddress(stored) || !text.IsAddress(sent) {
			t.Errorf("%q is valid; stored %q: %v, sent %q: %v", address, stored, text.IsAddress(stored), sent, text.IsAddress(sent))
		}
		key := text.AddressKey(address)
		for _, form := range []string{key, stored, sent} {
			if text.AddressKey(form) != key {
				t.Errorf("the key of %q is %q, and that of %q %q", address, key, form, text.AddressKey(form))
			}
		}
	})
}
