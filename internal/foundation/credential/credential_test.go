package credential

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var kinds = []Kind{AuthorizationCode, AccessToken, RefreshToken, Cursor, WebhookSecret, ReceiptLink}

func TestSealedValuesOpen(t *testing.T) {
	ring := NewTestKeyring()
	payload := []byte("facts")
	for _, kind := range kinds {
		value, err := ring.Seal(kind, payload)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(value, prefixes[kind]) {
			t.Errorf("%s begins otherwise than with %s", kind, prefixes[kind])
		}
		got, err := ring.Open(kind, value)
		if err != nil || !bytes.Equal(got, payload) {
			t.Errorf("%s: Open = %q, %v", kind, got, err)
		}
		again, err := ring.Seal(kind, payload)
		if err != nil || again == value {
			t.Errorf("%s: two values are the same", kind)
		}
	}
}

// Parts of a fixed size are big-endian and follow each other. A value of another size is refused.
func TestPartsOfASealedValue(t *testing.T) {
	type facts struct {
		ID    [2]byte
		Count int32
	}
	ring, sealed := NewTestKeyring(), facts{[2]byte{7, 8}, 0x01020304}
	seal := func(parts ...any) string {
		t.Helper()
		value, err := ring.Seal(AccessToken, parts...)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	value := seal(sealed, []byte("text"))
	if got, err := ring.Open(AccessToken, value); err != nil || string(got) != "\x07\x08\x01\x02\x03\x04text" {
		t.Errorf("Open = %q, %v", got, err)
	}
	if got, err := OpenAs[facts](ring, AccessToken, seal(sealed)); err != nil || got != sealed {
		t.Errorf("OpenAs = %v, %v", got, err)
	}
	for _, other := range []string{value, seal([]byte("short")), seal(), "svca_"} {
		if _, err := OpenAs[facts](ring, AccessToken, other); err != ErrInvalid {
			t.Errorf("OpenAs(%q): %v", other, err)
		}
	}
	if _, err := ring.Seal(AccessToken, "text"); err == nil {
		t.Error("a part without a fixed size was sealed")
	}
}

// Specification 2.9 and decisions section 3: bound to their kind, so that none can pass for another.
func TestKindsDoNotPassForAnother(t *testing.T) {
	ring := NewTestKeyring()
	for _, sealed := range kinds {
		value, err := ring.Seal(sealed, []byte("facts"))
		if err != nil {
			t.Fatal(err)
		}
		for _, asked := range kinds {
			if asked == sealed {
				continue
			}
			relabelled := prefixes[asked] + strings.TrimPrefix(value, prefixes[sealed])
			for _, presented := range []string{value, relabelled} {
				if _, err := ring.Open(asked, presented); err != ErrInvalid {
					t.Errorf("%s opened as %s: %v", sealed, asked, err)
				}
			}
		}
	}
}

func TestAlteredValuesAreInvalid(t *testing.T) {
	ring := NewTestKeyring()
	value, err := ring.Seal(AccessToken, []byte("facts"))
	if err != nil {
		t.Fatal(err)
	}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for i := range value {
		for _, other := range alphabet {
			if altered := value[:i] + string(other) + value[i+1:]; altered != value {
				if _, err := ring.Open(AccessToken, altered); err != ErrInvalid {
					t.Fatalf("opened with character %d altered: %v", i, err)
				}
			}
		}
	}
	for name, altered := range map[string]string{
		"empty":        "",
		"prefix alone": prefixes[AccessToken],
		"cut short":    value[:len(value)-1],
		"made longer":  value + "A",
		"padded":       value + "=",
		"line break":   value[:20] + "\n" + value[20:],
		"too long":     value + strings.Repeat("A", 2048),
	} {
		if _, err := ring.Open(AccessToken, altered); err != ErrInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := NewTestKeyring().Open(AccessToken, value); err != ErrInvalid {
		t.Errorf("opened by another keyset: %v", err)
	}
}

func TestLongPayloadsAreRefused(t *testing.T) {
	ring := NewTestKeyring()
	if _, err := ring.Seal(AccessToken, make([]byte, 1400)); err != nil {
		t.Error(err)
	}
	if _, err := ring.Seal(AccessToken, make([]byte, 1600)); err == nil {
		t.Error("sealed a value of more than 2048 characters")
	}
}

func TestPRFPartsAreSeparate(t *testing.T) {
	ring := NewTestKeyring()
	seen := map[[32]byte]bool{}
	for _, parts := range [][][]byte{
		{}, {{}}, {[]byte("ab")}, {[]byte("a"), []byte("b")}, {[]byte("ab"), {}}, {{}, []byte("ab")},
	} {
		seen[ring.PRF("use", parts...)] = true
		seen[ring.PRF("other use", parts...)] = true
	}
	if len(seen) != 12 {
		t.Errorf("%d different values of 12", len(seen))
	}
	if first, second := ring.PRF("use", []byte("a")), ring.PRF("use", []byte("a")); first != second {
		t.Error("the same input gave two values")
	}
}

func TestClientSecrets(t *testing.T) {
	secret, hash, err := NewClientSecret(rand.Reader)
	other, _, again := NewClientSecret(rand.Reader)
	if err != nil || again != nil || secret == other || !strings.HasPrefix(secret, "svci_") || len(secret) != len("svci_")+43 {
		t.Error("secrets are not 256 random bits behind their prefix")
	}
	if !MatchesHash(secret, hash) || MatchesHash(other, hash) || MatchesHash("", hash) || MatchesHash(secret, nil) {
		t.Error("MatchesHash is wrong")
	}
}

func TestRotationKeepsOldKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keyset.json")
	if err := CreateKeyset(path); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	load := func() *Keyring {
		t.Helper()
		ring, err := LoadKeyring(path)
		if err != nil {
			t.Fatal(err)
		}
		return ring
	}
	before := load()
	old, err := before.Seal(RefreshToken, []byte("facts"))
	if err != nil {
		t.Fatal(err)
	}
	identifier := before.PRF("ids", []byte("x"))

	if err := RotateKeyset(path); err != nil {
		t.Fatal(err)
	}
	after := load()
	if _, err := after.Open(RefreshToken, old); err != nil {
		t.Errorf("a retired key does not open: %v", err)
	}
	if after.PRF("ids", []byte("x")) != identifier {
		t.Error("the identifier key changed")
	}
	fresh, err := after.Seal(RefreshToken, []byte("facts"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := before.Open(RefreshToken, fresh); err != nil {
		t.Errorf("a server with the file of before does not open: %v", err)
	}

	for range 3 {
		if err := RotateKeyset(path); err != nil {
			t.Fatal(err)
		}
	}
	ring, err := LoadKeyring(path)
	if err != nil {
		t.Fatal(err)
	}
	var states []KeyStatus
	for _, key := range ring.Keys() {
		states = append(states, key.Status)
	}
	want := []KeyStatus{keyRetired, keyRetired, keyRetired, keyRetired, keyPrimary, keyNext}
	if diff := cmp.Diff(want, states); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	if _, err := load().Open(RefreshToken, old); err != nil {
		t.Errorf("a key retired four times ago does not open: %v", err)
	}
	if _, err := before.Open(RefreshToken, mustSeal(t, load())); err != ErrInvalid {
		t.Errorf("a value of an unknown key: %v", err)
	}
}

func mustSeal(t *testing.T, ring *Keyring) string {
	t.Helper()
	value, err := ring.Seal(RefreshToken, []byte("facts"))
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func TestKeysetFileErrors(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "keyset.json")
	if err := CreateKeyset(path); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := CreateKeyset(path); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("created over a keyset: %v", err)
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, content) {
		t.Errorf("the keyset changed: %v", err)
	}
	for name, text := range map[string]string{"no json": "x", "empty": "{}", "no keys": `{"sealing":{},"identifiers":{}}`} {
		bad := filepath.Join(dir, "bad.json")
		if err := os.WriteFile(bad, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadKeyring(bad); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := LoadKeyring(filepath.Join(dir, "absent.json")); err == nil {
		t.Error("loaded an absent file")
	}
}

func TestRedact(t *testing.T) {
	ring := NewTestKeyring()
	secret, _, err := NewClientSecret(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	values := []string{secret, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw+/="}
	for kind := range prefixes {
		value, err := ring.Seal(kind, []byte("facts"))
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, value)
	}
	for _, value := range values {
		for _, text := range []string{value, "token=" + value + "&x=1", `{"a":"` + value + `"}`, "/cb?code=" + value, "token%3D" + value, value + " " + value} {
			got := Redact(text)
			if strings.Contains(got, value[len(value)-8:]) || !strings.Contains(got, "[redacted]") {
				t.Errorf("a credential is left in a text of %d characters", len(text))
			}
		}
	}
	for _, text := range []string{"", "nothing here", "step_corrections_pkey", "svca_short", "cc1"} {
		if got := Redact(text); got != text {
			t.Errorf("Redact(%q) = %q", text, got)
		}
	}
}

func FuzzOpen(f *testing.F) {
	ring := NewTestKeyring()
	f.Add("svca_AAAA")
	f.Add("")
	f.Fuzz(func(t *testing.T, value string) {
		for _, kind := range kinds {
			if _, err := ring.Open(kind, value); err != ErrInvalid {
				t.Errorf("opened a value that nobody sealed: %v", err)
			}
		}
	})
}
