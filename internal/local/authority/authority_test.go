package authority

import (
	"bytes"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestAuthority(t *testing.T) {
	t.Parallel()
	dir, now := t.TempDir(), time.Now()
	first, err := Open(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"localhost", "127.0.0.1", "::1"} {
		if _, err := first.Server.Leaf.Verify(x509.VerifyOptions{Roots: first.Roots, DNSName: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"ca-key.pem", "server-key.pem"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}

	same := func(a, b *Authority) (ca, server bool) {
		return a.Roots.Equal(b.Roots), bytes.Equal(a.Server.Certificate[0], b.Server.Certificate[0])
	}
	for _, test := range []struct {
		name       string
		after      time.Duration
		spoil      string
		ca, server bool // stay as they were
	}{
		{"another start", time.Hour, "", true, true},
		{"server certificate near its end", serverLifetime - renewBefore + time.Hour, "", true, false},
		{"everything over", authorityLifetime, "", false, false},
		{"authority gone", 0, "ca.pem", false, false},
		{"half a key", 0, "server-key.pem", true, false},
	} {
		before, err := Open(dir, now)
		if err != nil {
			t.Fatal(err)
		}
		if test.spoil != "" {
			if err := os.WriteFile(filepath.Join(dir, test.spoil), []byte("-----BEGIN"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		now = now.Add(test.after)
		after, err := Open(dir, now)
		if err != nil {
			t.Fatal(err)
		}
		if ca, server := same(before, after); ca != test.ca || server != test.server {
			t.Errorf("%s: authority kept %v, server kept %v; want %v, %v", test.name, ca, server, test.ca, test.server)
		}
		if _, err := after.Server.Leaf.Verify(x509.VerifyOptions{Roots: after.Roots, DNSName: "localhost", CurrentTime: now}); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// An authority for one run has names of its own, leaves no key on the disk, and no constraint that a client could not know.
func TestOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, err := Once(filepath.Join(dir, "ca.pem"), time.Now(), "sandbox.test")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"localhost", "127.0.0.1", "::1", "sandbox.test"} {
		if _, err := a.Server.Leaf.Verify(x509.VerifyOptions{Roots: a.Roots, DNSName: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(a.Certificate.PermittedDNSDomains)+len(a.Certificate.PermittedIPRanges) > 0 {
		t.Error("there are name constraints")
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Errorf("the folder has %v, %v", files, err)
	}
	if _, err := Once(dir, time.Now()); err == nil {
		t.Error("written to a folder")
	}
}
