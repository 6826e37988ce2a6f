package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// An image has what packages brought, whatever else stands in their folders on the machine that builds it.
func TestForeignFilesStayOut(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	const folder = "/usr/share/postgresql/15"
	for name, content := range map[string]string{
		"/var/lib/dpkg/info/postgresql-15.list": "/.\n" + folder + "\n" + folder + "/pg_hba.conf.sample\n" + folder + "/extension\n",
		folder + "/pg_hba.conf.sample":          "local all all peer\n",
		folder + "/extension/foreign.control":   "default_version = '1.0'\n",
	} {
		if err := os.MkdirAll(filepath.Dir(root+name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(root+name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("foreign.control", root+folder+"/extension/link.control"); err != nil {
		t.Fatal(err)
	}
	files := tree{}
	if err := files.addAll(root, folder); err != nil {
		t.Fatal(err)
	}
	if names := slices.Collect(maps.Keys(files)); !slices.Equal(names, []string{folder + "/pg_hba.conf.sample"}) {
		t.Errorf("the image has %q", names)
	}
}
