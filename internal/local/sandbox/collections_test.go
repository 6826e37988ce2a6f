//go:build check

package sandbox

import (
	"archive/zip"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Postman's program and Bruno's run all requests of the collections that the developers' site has, and each is answered as documented.
func TestCollections(t *testing.T) {
	t.Parallel()
	r := start(t)
	bin := strings.TrimSpace(string(succeed(t, exec.CommandContext(t.Context(), "../../../.ci/npm", "testdata/collections")))) + "/node_modules/.bin/"
	folder := t.TempDir()
	r.download(t, folder, "connect-svc.postman_collection.json", "connect-svc.bruno.zip")
	archive, err := zip.OpenReader(filepath.Join(folder, "connect-svc.bruno.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	if err := os.CopyFS(folder, archive); err != nil {
		t.Fatal(err)
	}
	postman := exec.CommandContext(t.Context(), bin+"newman", "run", "connect-svc.postman_collection.json",
		"--ssl-extra-ca-certs", r.described.CaFile, "--env-var", "driver_url="+r.described.DriverUrl, "--color", "off")
	postman.Dir = folder
	if printed := string(succeed(t, postman)); strings.Count(printed, "as documented") != 10 {
		t.Errorf("Postman: %s", printed)
	}
	bruno := exec.CommandContext(t.Context(), bin+"bru", "run", "--env", "Sandbox", "--env-var", "driver_url="+r.described.DriverUrl,
		"--cacert", r.described.CaFile)
	bruno.Dir = filepath.Join(folder, "connect-svc")
	if printed := string(succeed(t, bruno)); !strings.Contains(printed, "10 (10 Passed)") {
		t.Errorf("Bruno: %s", printed)
	}
}

// download gets files of the sandbox's developers' site.
func (r *running) download(t *testing.T, folder string, names ...string) {
	t.Helper()
	for _, name := range names {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.described.BaseUrl+"/developers/"+name, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := r.network.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
