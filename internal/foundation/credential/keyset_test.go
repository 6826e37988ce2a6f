//go:build unix

package credential

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// A keyset is taken only from a file that nobody else can read or change, and that the group cannot change.
func TestKeysetOfOthersIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keyset.json")
	if err := CreateKeyset(path); err != nil {
		t.Fatal(err)
	}
	for mode, taken := range map[os.FileMode]bool{
		0o600: true, 0o400: true, 0o640: true, 0o440: true,
		0o604: false, 0o602: false, 0o660: false, 0o620: false, 0o644: false, 0o666: false,
	} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := LoadKeyring(path)
		if taken != (err == nil) || err != nil && (!strings.Contains(err.Error(), "chmod 0640") || strings.Contains(err.Error(), "\n")) {
			t.Errorf("mode %o: %v", mode, err)
		}
		if err := RotateKeyset(path); taken != (err == nil) {
			t.Errorf("rotating with mode %o: %v", mode, err)
		}
	}
}

// A keyring knows its keys without their material, as the file has them.
func TestKeysOfAKeyring(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keyset.json")
	if err := CreateKeyset(file); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		stored, err := readKeysets(file)
		if err != nil {
			t.Fatal(err)
		}
		ring, err := LoadKeyring(file)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := ring.Keys(), keyInfos(stored.sealing); !slices.Equal(got, want) {
			t.Errorf("the keys are %v, want %v", got, want)
		}
		if err := RotateKeyset(file); err != nil {
			t.Fatal(err)
		}
	}
}

// Rotating a keyset keeps its owner, also behind a symbolic link.
func TestRotationKeepsOwnerAndMode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, link := filepath.Join(dir, "keyset.json"), filepath.Join(dir, "link.json")
	if err := CreateKeyset(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	owner, group := os.Getuid(), os.Getgid()
	if owner == 0 { // as root rotates the keyset of the service
		owner, group = 65534, 65534
	}
	if err := os.Chown(path, owner, group); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o440); err != nil {
		t.Fatal(err)
	}
	before, err := LoadKeyring(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := RotateKeyset(link); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if stat := info.Sys().(*syscall.Stat_t); int(stat.Uid) != owner || int(stat.Gid) != group || info.Mode() != 0o440 {
		t.Errorf("owner %d, group %d, mode %s", stat.Uid, stat.Gid, info.Mode())
	}
	if after, err := LoadKeyring(link); err != nil || len(after.Keys()) != len(before.Keys())+1 {
		t.Errorf("%v, before %v: %v", after, before.Keys(), err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v", err)
	}
}

// FuzzKeysetFile: what is in the file is a keyset that works, or refused in one line that repeats nothing of it.
func FuzzKeysetFile(f *testing.F) {
	path := filepath.Join(f.TempDir(), "keyset")
	if err := CreateKeyset(path); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{string(whole), "", "{}", "null", `{"sealing":{},"identifiers":{}}`, `{"sealing":{"primaryKeyId":1,"key":[]},"identifiers":null}`,
		strings.Replace(string(whole), "ENABLED", "DISABLED", 1), strings.Replace(string(whole), "TINK", "RAW", 1), string(whole[:len(whole)/2])} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "keyset")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		keys, err := LoadKeyring(path)
		if err != nil {
			if said := strings.ReplaceAll(err.Error(), path, ""); strings.Contains(said, "\n") || len(said) > 200 {
				t.Errorf("the error: %.500q", said)
			}
			return
		}
		sealed, err := keys.Seal(AccessToken, []byte("x"))
		if err != nil {
			t.Fatalf("it was loaded and cannot seal: %v", err)
		}
		if opened, err := keys.Open(AccessToken, sealed); err != nil || string(opened) != "x" {
			t.Errorf("it opens %q, %v", opened, err)
		}
	})
}
