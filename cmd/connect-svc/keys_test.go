package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/testing/pgtest"
)

// statuses of the keys of a file, in order.
type keysetJSON struct {
	File string
	Keys []credential.KeyInfo
}

func statuses(set keysetJSON) (list []credential.KeyStatus) {
	for _, key := range set.Keys {
		list = append(list, key.Status)
	}
	return list
}

// Decisions section 3: rotation without downtime; what was sealed before still opens.
func TestKeys(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keyset.json")

	created := succeedJSON[keysetJSON](t, nil, "", "keys", "create", "--out", file)
	if diff := cmp.Diff([]credential.KeyStatus{"primary", "next"}, statuses(created)); diff != "" {
		t.Error(diff)
	}
	ring, err := credential.LoadKeyring(file)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := ring.Seal(credential.AccessToken, []byte("facts"))
	if err != nil {
		t.Fatal(err)
	}

	rotated := succeedJSON[keysetJSON](t, nil, "", "keys", "rotate", file)
	if diff := cmp.Diff([]credential.KeyStatus{"retired", "primary", "next"}, statuses(rotated)); diff != "" {
		t.Error(diff)
	}
	if rotated.Keys[1].ID != created.Keys[1].ID {
		t.Error("the key that was next is not the primary one")
	}
	if ring, err = credential.LoadKeyring(file); err != nil {
		t.Fatal(err)
	}
	if got, err := ring.Open(credential.AccessToken, sealed); err != nil || string(got) != "facts" {
		t.Errorf("after the rotation: %q, %v", got, err)
	}

	if diff := cmp.Diff(rotated, succeedJSON[keysetJSON](t, nil, "", "keys", "list", file)); diff != "" {
		t.Error(diff)
	}
	if text := succeed(t, nil, "", "keys", "list", file); !strings.HasPrefix(text, "KEY ID") || strings.Count(text, "\n") != 4 {
		t.Errorf("not a table of three keys:\n%s", text)
	}
}

// Every command that seals or opens does so with the keyset of the service, until another one is adopted.
func TestKeysAdopt(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	company := db.Client(t).ID.String()
	dir := t.TempDir()
	ours, other := filepath.Join(dir, "ours.json"), filepath.Join(dir, "other.json")
	for _, file := range []string{ours, other} {
		succeed(t, nil, "", "keys", "create", "--out", file)
	}
	set := []string{"client", "webhook", "set", company, "https://partner.example/webhooks"}
	with := func(file string) []string { return append(env(db), "CONNECT_KEYSET_FILE="+file) }
	succeed(t, with(ours), "", set...)
	for _, args := range [][]string{set, {"client", "webhook", "rotate-secret", company}, {"webhook", "test", "--client", company},
		{"client", "update", company, "--webhook-url", "https://partner.example/other"}} {
		refuse(t, with(other), statusFailed, []string{"CONNECT_KEYSET_FILE", "not the one that this database's credentials are made with"}, args...)
	}
	refuse(t, env(db), statusUsage, []string{"this will make " + other, "is lost", "--yes"}, "keys", "adopt", other)
	succeed(t, with(ours), "", set...)
	if adopted := succeedJSON[keysetJSON](t, env(db), "", "keys", "adopt", other, "--yes"); adopted.File != other || len(adopted.Keys) != 2 {
		t.Errorf("adopted: %v", adopted)
	}
	refuse(t, with(ours), statusFailed, []string{"CONNECT_KEYSET_FILE"}, set...)
	succeed(t, env(db), "", "client", "webhook", "remove", company)
	succeed(t, with(other), "", set...)
}

func TestKeysRefusals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "keyset.json")
	succeed(t, nil, "", "keys", "create", "--out", file)
	refuse(t, nil, statusFailed, []string{file, "exists already"}, "keys", "create", "--out", file)
	refuse(t, nil, statusFailed, []string{"no such file"}, "keys", "rotate", filepath.Join(dir, "none.json"))
	refuse(t, nil, statusFailed, []string{"no such file"}, "keys", "list", filepath.Join(dir, "none.json"))
}
