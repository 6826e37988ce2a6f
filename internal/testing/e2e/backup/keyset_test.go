package backup_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"connect-svc/internal/app"
	"connect-svc/internal/app/settings"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/pgtest"
)

// keysetFile makes a keyset.
func keysetFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keyset.json")
	if err := credential.CreateKeyset(file); err != nil {
		t.Fatal(err)
	}
	return file
}

func loadKeyset(t *testing.T, file string) *credential.Keyring {
	t.Helper()
	keys, err := credential.LoadKeyring(file)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// edited is a copy of a keyset file that somebody has changed by hand.
func edited(t *testing.T, file string, edit func(keyset map[string]map[string]any)) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var keyset map[string]map[string]any
	if err := json.Unmarshal(text, &keyset); err != nil {
		t.Fatal(err)
	}
	if edit != nil {
		edit(keyset)
	}
	if text, err = json.Marshal(keyset); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "edited.json")
	if err := os.WriteFile(copied, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return copied
}

func rotate(t *testing.T, file string) {
	t.Helper()
	if err := credential.RotateKeyset(file); err != nil {
		t.Fatal(err)
	}
}

// A server whose keyset cannot open what others on its database seal does not start: it would answer each refresh with
// invalid_grant, and the partner throws its tokens away.
func TestKeysetOfTheDatabase(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	file, other := keysetFile(t), keysetFile(t)
	starts := func(when, file string) {
		t.Helper()
		if err := loadKeyset(t, file).CheckMarks(t.Context(), db.Pool); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	refused := func(when, file, why string) {
		t.Helper()
		err := loadKeyset(t, file).CheckMarks(t.Context(), db.Pool)
		if err == nil || !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", when, err, why)
		}
	}
	const foreign, lacks = "is not the one that this database's credentials are made with", "lacks key "
	starts("the first", file)
	starts("another server", file)
	refused("another keyset", other, foreign)
	starts("after the refusal", file)
	refused("sealing keys of another keyset", edited(t, file, func(k map[string]map[string]any) {
		k["sealing"] = readKeyset(t, other)["sealing"]
	}), lacks)
	refused("another key for identifiers", edited(t, file, func(k map[string]map[string]any) {
		k["identifiers"] = readKeyset(t, other)["identifiers"]
	}), foreign)

	// Servers with the old and the new file run side by side, and may crash and start meanwhile.
	before := edited(t, file, nil)
	rotate(t, file)
	starts("rotated", file)
	starts("not rotated yet", before)
	refused("without the retired key", edited(t, file, func(k map[string]map[string]any) {
		k["sealing"]["key"] = k["sealing"]["key"].([]any)[1:]
	}), lacks)
	// A second rotation needs the step between: the first file does not have the new key.
	once := edited(t, file, nil)
	rotate(t, file)
	starts("rotated twice", file)
	starts("rotated once", once)
	refused("two rotations behind", before, lacks)

	if err := loadKeyset(t, other).AdoptMarks(t.Context(), db.Pool); err != nil {
		t.Fatal(err)
	}
	starts("adopted", other)
	refused("no longer the database's", file, foreign)
}

func readKeyset(t *testing.T, file string) (keyset map[string]map[string]any) {
	t.Helper()
	edited(t, file, func(k map[string]map[string]any) { keyset = k })
	return keyset
}

// Of servers that start at the same time on a new database, those with one keyset all start, and no others.
func TestKeysetOfServersThatStartAtOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	rings := []*credential.Keyring{loadKeyset(t, keysetFile(t)), loadKeyset(t, keysetFile(t))}
	started := make([]int, len(rings))
	var mu sync.Mutex
	var work sync.WaitGroup
	for n := range 16 {
		work.Go(func() {
			err := rings[n%2].CheckMarks(t.Context(), db.Pool)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				started[n%2]++
			}
		})
	}
	work.Wait()
	if max(started[0], started[1]) != 8 || min(started[0], started[1]) != 0 {
		t.Errorf("%v servers with the one and the other keyset started", started)
	}
}

// The service asks before it listens.
func TestServiceRefusesAnotherKeyset(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	e2e.Open(t, db, keysetFile(t))
	_, err := app.Open(t.Context(), app.Config{Database: settings.Database{DatabaseURL: db.URL}, Keys: loadKeyset(t, keysetFile(t)), Clock: db.Clock})
	if err == nil || !strings.Contains(err.Error(), "CONNECT_KEYSET_FILE") {
		t.Errorf("the error: %v", err)
	}
	if marks := fmt.Sprint(pgtest.Value[int64](t, db, "select count(*) from keyset_marks")); marks != "2" {
		t.Errorf("%s marks", marks)
	}
}
