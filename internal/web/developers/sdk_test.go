package developers

import (
	"bytes"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
	"golang.org/x/tools/txtar"

	"connect-svc/gen/sdk"
)

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	target := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(target, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return target
}

// The answers of the module proxy protocol, and nothing beside them.
func TestModuleProxy(t *testing.T) {
	t.Parallel()
	site, err := New(Config{BaseURL: "https://connect.example.com", SDKModule: "go.example.com/Acme"})
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		site.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		return answer
	}
	const dir = "/developers/go/go.example.com/!acme/"
	for path, want := range map[string]string{
		"@v/list": "v1.0.0\n", "@latest": `{"Version":"v1.0.0"}`, "@v/v1.0.0.info": `{"Version":"v1.0.0"}`, "@v/v1.0.0.mod": "module go.example.com/Acme\n",
	} {
		if answer := get(dir + path); answer.Code != http.StatusOK || !strings.HasPrefix(answer.Body.String(), want) {
			t.Errorf("%s: %d %s", path, answer.Code, answer.Body)
		}
	}
	for _, path := range []string{
		dir, dir + "@v/", dir + "@v/v1.0.1.info", dir + "connect/@v/list", "/developers/go/go.example.com/Acme/@v/list",
		"/developers/go/" + nobodysModule + "/@v/list", "/developers/go/sumdb/supported", "/developers/sdk/",
	} {
		if answer := get(path); answer.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, answer.Code)
		}
	}
	archive := get(dir + "@v/v1.0.0.zip")
	file := write(t, t.TempDir(), "module.zip", archive.Body.String())
	if _, err := modzip.CheckZip(module.Version{Path: "go.example.com/Acme", Version: "v1.0.0"}, file); err != nil {
		t.Error(err)
	}
	if strings.Contains(archive.Body.String(), nobodysModule) || archive.Header().Get("Content-Type") != "application/zip" {
		t.Errorf("the zip is %v", archive.Header())
	}
}

func TestDefaultModule(t *testing.T) {
	t.Parallel()
	for baseURL, want := range map[string]string{
		"https://connect.example.com":      "connect.example.com/connect-go",
		"https://connect.example.com:8443": "connect.example.com/connect-go",
		"https://localhost:8443":           nobodysModule,
		"https://connect":                  nobodysModule,
		"https://127.0.0.1:8443":           nobodysModule,
		"https://[::1]:8443":               nobodysModule,
		"https://my_host.example.com":      nobodysModule, // no module may have an underscore there
	} {
		if got := DefaultModule(baseURL); got != want {
			t.Errorf("%s: %s, want %s", baseURL, got, want)
		}
	}
}

// The archives hold the files of sdk/, in the version of the contract. `make verify` holds compiled files to their sources.
func TestSDKsAreThose(t *testing.T) {
	t.Parallel()
	handedOut := map[string][]byte{}
	for _, f := range txtar.Parse(sdk.Go).Files {
		handedOut["go/"+f.Name] = f.Data
	}
	for _, f := range txtar.Parse(sdk.TypeScript).Files {
		handedOut["typescript/"+strings.TrimPrefix(f.Name, "package/")] = f.Data
	}
	root := os.DirFS(filepath.Join("..", "..", "..", "sdk"))
	names := []string{"typescript/README.md", "typescript/package.json"}
	for _, folder := range []string{"go", "typescript/examples"} {
		err := fs.WalkDir(root, folder, func(name string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				names = append(names, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		want, err := fs.ReadFile(root, name)
		if err != nil || !bytes.Equal(handedOut[name], want) {
			t.Errorf("gen/sdk has another %s: run make generate (%v)", name, err)
		}
	}
	document, err := contract()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(handedOut["typescript/package.json"], []byte(`"version": "`+document.Version+`",`)) {
		t.Errorf("the npm package is not version %s, which is the contract's", document.Version)
	}
}

// The tarball is the same bytes whatever compressor Go has, and is sent as it is.
func TestTarball(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodGet, "/developers/sdk/connect-1.0.0.tgz", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	answer := httptest.NewRecorder()
	newSite(t).ServeHTTP(answer, r)
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if answer.Header().Get("Content-Type") != "application/gzip" || answer.Header().Get("Content-Encoding") != "" || len(body) < len(sdk.TypeScript) {
		t.Errorf("%v, %d bytes", answer.Header(), len(body))
	}
}
