//go:build faults

package storm

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// root of the checkout.
const root = "../../.."

// releasedFile names the commit of the last release, as git does: a tag or a hash.
const releasedFile = "api/released/COMMIT"

// buildReleased builds the last released program. It is that of HEAD if there is none, or if its commit is not in a shallow clone.
func buildReleased(t *testing.T) (program string, operator []byte) {
	t.Helper()
	git := func(args ...string) ([]byte, error) {
		command := exec.Command("git", args...)
		command.Dir = root
		return command.Output()
	}
	commit := "HEAD"
	if name, err := os.ReadFile(filepath.Join(root, releasedFile)); err == nil {
		if known, err := git("rev-parse", "--verify", "--quiet", "--end-of-options", strings.TrimSpace(string(name))+"^{commit}"); err == nil {
			commit = strings.TrimSpace(string(known))
		} else {
			t.Logf("the commit of %s is not in this repository", releasedFile)
		}
	}
	t.Logf("the released program is that of %s", commit)
	archive, err := git("archive", commit)
	if err != nil {
		t.Fatalf("git archive %s: %v", commit, err)
	}
	sources := t.TempDir()
	unpack := exec.Command("tar", "-x", "-C", sources)
	unpack.Stdin = bytes.NewReader(archive)
	if output, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, output)
	}
	if operator, err = os.ReadFile(filepath.Join(sources, "api", "operator.yaml")); err != nil {
		t.Fatal(err)
	}
	return build(t, "released", sources), operator
}

// buildNext builds this checkout's program with more migrations, which are in folders of testdata. It calls next_is_secret_of in place of
// is_secret_of.
func buildNext(t *testing.T, version string, folders ...string) string {
	t.Helper()
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir, replace := t.TempDir(), map[string]string{}
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(top, "internal/testing/storm/testdata", folder, "*.sql"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no migrations in %s: %v", folder, err)
		}
		for _, file := range files {
			replace[filepath.Join(top, "migrations", filepath.Base(file))] = file
		}
	}
	migrated := len(replace)
	if err := filepath.WalkDir(filepath.Join(top, "gen", "db"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		changed := strings.ReplaceAll(string(text), " is_secret_of(", " next_is_secret_of(")
		if changed == string(text) {
			return nil
		}
		replace[path] = filepath.Join(dir, entry.Name())
		return os.WriteFile(replace[path], []byte(changed), 0o600)
	}); err != nil || len(replace) == migrated {
		t.Fatalf("%d files call is_secret_of: %v", len(replace)-migrated, err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return build(t, version, top, "-overlay", filepath.Join(dir, "overlay.json"))
}
